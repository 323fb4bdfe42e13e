// Thirty thousand tasks that are kept for two seconds; a million, kept for a minute, in test/full.
import { test } from 'node:test';
import { soak } from './soak.ts';

test('thirty thousand tasks leave nothing behind', async (t) => {
  const { redis_bytes, rss_bytes, took_ms } = await soak({ tasks: 30_000, retention_s: 2, sample_ms: 250 });
  const mb = (bytes: number): number => Math.round(bytes / 1_048_576);
  t.diagnostic(`${Math.round(took_ms)} ms; Redis ${mb(Math.max(...redis_bytes))} MB at most, the engine ${mb(Math.max(...rss_bytes))} MB`);
});
