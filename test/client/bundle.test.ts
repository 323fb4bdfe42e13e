// The client as browsers get it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { bundleClient } from '../../bench/client-size.ts';

/** What a page may be asked to load for it; `make bench` has the exact figure. */
const GZIP_BYTES_MAX = 6_000;

test('bundled for a browser the client needs nothing of Node and is small', async (t) => {
  const bundle = await bundleClient();
  assert.ok(bundle.includes('webhook-signature') && bundle.includes('/v1/batches'), 'all of it is there');
  assert.deepEqual([...bundle.matchAll(/\b(?:import|require)\s*(?:\(|[\w{*'"].{0,80}?from)/g)].map(String), []);
  assert.ok(!/node:|\bprocess\b|\bBuffer\b/.test(bundle));
  const bytes = gzipSync(bundle, { level: 9 }).length;
  t.diagnostic(`${bundle.length} bytes minified, ${bytes} with gzip`);
  assert.ok(bytes < GZIP_BYTES_MAX, `${bytes} bytes with gzip`);
});
