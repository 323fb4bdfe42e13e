// A network that goes silent and comes back, and a Redis that is slow: the one engine that there is answers in time meanwhile, and
// afterwards is at work again by itself. Clients of Redis have been seen to stay wedged after that, with connections that look alive.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { startProxy } from '../helpers/proxy.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis, until } from '../helpers/redis.ts';
import { freshPath, tasksFor } from './stage.ts';

/** Longer than a command may take, and than a connection that is silent is believed in: it is given up and dialed again, into silence. */
const SILENT_MS = 7_000;
/** The longest a request may take while Redis says nothing, on a machine that is busy. */
const ANSWER_MS_MAX = 6_000;
/** From the end of the silence to new work. */
const BACK_MS_MAX = 12_000;
/** Work that starts by its bell starts at once; where the subscription were lost, by the sweep: 5 s, or 10 at rest. */
const BELL_MS_MAX = 3_500;
const ROUNDS = 6;

const { path, redis } = await startRedis();
const proxy = await startProxy({ path });
const receiver = await startReceiver();
const engine = await startEngine({ redis_url: `redis://127.0.0.1:${proxy.port}` });
const client = api(engine, TOKENS.acme);

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Creates one batch; its status and how long the answer took. */
async function create(url: string): Promise<{ status: number; ms: number; id: string; retry_after: string | undefined }> {
  const began_ms = performance.now();
  const { status, json, headers } = await client.ask('POST', '/v1/batches', { body: { tasks: tasksFor(url, 3) } });
  const id = (json as { id?: string }).id ?? '';
  return { status, id, ms: performance.now() - began_ms, retry_after: headers['retry-after'] };
}

/** Creates of several partitions, one after the other; each starts as its bell rings. */
async function works(): Promise<void> {
  for (let round = 0; round < ROUNDS; round++) {
    const place = freshPath();
    const { status, id } = await create(receiver.at(place));
    assert.equal(status, 201);
    await receiver.heard(place, 3, BELL_MS_MAX);
    await client.ended(id, 'completed');
  }
}

describe('a network that goes silent', () => {
  for (const [what, fail] of [
    ['nothing comes through', () => proxy.hang()],
    ['no answer comes through', () => proxy.swallow()],
    ['nobody takes the call', () => proxy.refuse()],
  ] as const) {
    test(`${what}: requests are refused in time, and all is at work again by itself`, async (t) => {
      await works();
      const held = freshPath();
      const { id } = await create(receiver.at(held, { hold: true }));
      await receiver.heard(held, 3);
      fail();
      const refused: number[] = [];
      const until_ms = performance.now() + SILENT_MS;
      while (performance.now() < until_ms) {
        const { status, ms, retry_after } = await create(receiver.at(freshPath()));
        assert.equal(status, 503);
        assert.match(retry_after ?? '', /^\d+$/);
        refused.push(ms);
        await pause(200);
      }
      assert.ok(Math.max(...refused) < ANSWER_MS_MAX, `an answer took ${Math.max(...refused)} ms`);
      // What was under way ends meanwhile; its outcome waits here until it can be told.
      receiver.release(held);
      const healed_ms = performance.now();
      proxy.heal();
      await until(async () => (await create(receiver.at(freshPath()))).status === 201, BACK_MS_MAX, 'new work to be taken');
      const back_ms = performance.now() - healed_ms;
      await client.ended(id, 'completed');
      await until(async () => (await fetch(`${engine.url}/readyz`)).status === 200, BACK_MS_MAX, 'the engine to be ready');
      await works();
      assert.equal(receiver.to(held).length, 3, 'each was called once');
      t.diagnostic(`${refused.length} refused in ${Math.round(Math.max(...refused))} ms at most; back after ${Math.round(back_ms)} ms`);
    });
  }

  test('connections that were given up are gone, on both sides', async () => {
    const clients = async (): Promise<number> =>
      String(await redis.client('LIST'))
        .trim()
        .split('\n').length;
    const before = await clients();
    proxy.cut();
    await until(async () => (await create(receiver.at(freshPath()))).status === 201, BACK_MS_MAX, 'new work to be taken');
    await works();
    const after = await clients();
    assert.ok(after <= before + 1, `${before} connections, then ${after}`);
  });
});

test('a Redis that is slow makes everything slower and nothing wrong', async () => {
  proxy.delay(60);
  const place = freshPath();
  const made = await Promise.all(Array.from({ length: 20 }, () => create(receiver.at(place))));
  assert.deepEqual([...new Set(made.map(({ status }) => status))], [201]);
  for (const { id } of made) await client.ended(id, 'completed');
  proxy.heal();
  assert.equal(receiver.to(place).length, 60, 'each was called once');
  await works();
});
