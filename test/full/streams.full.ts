// A thousand streams on a hundred batches while a hundred thousand tasks end: all see the end, and nothing piles up.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { freshPath, tasksFor } from '../engine/stage.ts';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis } from '../helpers/redis.ts';
import { isProgress, openEvents, openSocket } from '../helpers/stream.ts';

const BATCHES = 100;
const TASKS = 1_000;
const STREAMS = 10;
const ENDED_MS_MAX = 300_000;
/** What the engine may hold beyond its start: frames that nobody has read would be gigabytes. */
const GROWTH_BYTES_MAX = 400 * 1_048_576;

test('a thousand streams on a hundred batches of a thousand tasks', async (t) => {
  const redis = await startRedis();
  const receiver = await startReceiver();
  const engine = await startEngine({ redis_url: `unix://${redis.path}` });
  const client = api(engine, TOKENS.acme);
  const bytes = async (): Promise<number> => {
    const text = await (await fetch(`${engine.url}/metrics`)).text();
    return Number(/^process_resident_memory_bytes (\S+)$/m.exec(text)?.[1]);
  };
  const path = freshPath();
  const url = receiver.at(path, {});
  const ids: string[] = [];
  for (let i = 0; i < BATCHES; i++) ids.push((await client.create({ tasks: tasksFor(url, 1), options: { hold: true } })).id);
  const readings = await Promise.all(
    ids.flatMap((id) =>
      Array.from({ length: STREAMS }, (_, k) =>
        k % 2 === 0
          ? openSocket(engine.url, `/v1/batches/${id}/stream`, TOKENS.acme)
          : openEvents(engine.url, `/v1/batches/${id}/events`, TOKENS.acme),
      ),
    ),
  );
  const before = await bytes();
  let most = before;
  for (const id of ids) {
    await client.add(id, { tasks: tasksFor(url, TASKS - 1) });
    await client.release(id);
    most = Math.max(most, await bytes());
  }
  for (const id of ids) await client.ended(id, 'completed', ENDED_MS_MAX);
  most = Math.max(most, await bytes());
  const codes = await Promise.all(readings.map(({ ended }) => ended));
  assert.deepEqual(new Set(codes), new Set([1000, 0]), 'how the streams ended');
  const stats = { total: TASKS, pending: 0, completed: TASKS, failed: 0, cancelled: 0 };
  for (const { frames } of readings) {
    const last = frames.at(-1);
    assert.ok(last !== undefined && isProgress(last), 'the last frame');
    assert.deepEqual([last.status, last.stats], ['completed', stats], 'what it tells');
    const counts = frames.filter(isProgress).map((frame) => frame.stats.completed);
    assert.ok(
      counts.every((count, i) => count >= (counts[i - 1] ?? 0)),
      'numbers go back',
    );
  }
  t.diagnostic(`the engine grew by ${Math.round((most - before) / 1_048_576)} MiB at most`);
  assert.ok(most - before < GROWTH_BYTES_MAX, `${most - before} bytes more`);
});
