// The network between one engine and Redis is silent for long, one way or both, while another engine goes on.
import { test } from 'node:test';
import { loseLink, startLinked } from './linked.ts';

const linked = await startLinked();

test('a link that hangs: the other engine does what was left behind, and all new work', async (t) => {
  t.diagnostic(await loseLink(linked, (proxy) => proxy.hang()));
});

test('a link that loses every answer: the same', async (t) => {
  t.diagnostic(await loseLink(linked, (proxy) => proxy.swallow()));
});
