// The engine dies in the middle of a round: the round goes on elsewhere, is begun once, and tells of its end once.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { NotificationLog } from '../../src/schema/types.gen.ts';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis, until } from '../helpers/redis.ts';
import { freshPath, ONCE, tasksFor } from './stage.ts';

const TASKS = 4_000;
const env = { SLUICE_CALLBACK_THREADS: '1', SLUICE_CALLBACKS_PER_THREAD: '256', SLUICE_HOLDER_SILENCE: '3s', SLUICE_SWEEP_INTERVAL: '1s' };

test('kill -9 while a round of 4,000 tasks is dealt out, and a repeated request for it afterwards', async (t) => {
  const redis = await startRedis();
  const receiver = await startReceiver();
  const first = await startEngine({ redis_url: `unix://${redis.path}`, env });
  const path = freshPath();
  const url = receiver.at(path, { status: 500 });
  const hook = { url: receiver.at(`${path}/hook`) };
  const acme = api(first, TOKENS.acme);
  const { id } = await acme.create({ tasks: tasksFor(url, TASKS, ONCE), notifications: { on_finish: hook, on_death: hook } });
  await acme.ended(id, 'failed');
  receiver.at(path, { delay_ms: 5 });
  const headers = { 'idempotency-key': `retry-${id}` };
  const begun = await acme.ask('POST', `/v1/batches/${id}/retry`, { headers });
  assert.equal(begun.status, 200, begun.text);
  await receiver.heard(path, TASKS + 500);
  await first.kill9();
  const heard = receiver.to(path).length - TASKS;
  assert.ok(heard < TASKS, `${heard} calls of the round before the kill`);

  const second = await startEngine({ redis_url: `unix://${redis.path}`, env });
  const after = api(second, TOKENS.acme);
  const again = await after.ask('POST', `/v1/batches/${id}/retry`, { headers });
  assert.deepEqual([again.status, again.text, again.headers['idempotent-replayed']], [200, begun.text, 'true']);
  const ended = await after.ended(id, 'completed', 60_000);
  assert.deepEqual(ended.stats, { total: TASKS, pending: 0, completed: TASKS, failed: 0, cancelled: 0 });

  const calls = new Map<string, number>();
  for (const call of receiver.to(path)) calls.set(call.id, (calls.get(call.id) ?? 0) + 1);
  assert.equal(calls.size, TASKS);
  assert.ok(Math.min(...calls.values()) >= 2, 'each task was called in both rounds');
  const repeats = receiver.to(path).length - 2 * TASKS;
  t.diagnostic(`${heard} calls before the kill, ${repeats} called again`);
  assert.ok(repeats <= 256 + 16 * 16, `${repeats} calls were repeated`);

  const log = async (): Promise<string[]> => {
    const { json } = await after.ask('GET', `/v1/batches/${id}/notifications?status=delivered`);
    return (json as NotificationLog).notifications.map(({ event }) => event).sort();
  };
  await until(async () => (await log()).length === 3, 20_000, 'all to be delivered');
  assert.deepEqual(await log(), ['on_death', 'on_finish', 'on_finish']);
  const told = new Set(receiver.to(`${path}/hook`).map((call) => call.id.slice(id.length)));
  assert.deepEqual([...told].sort(), ['_on_death_1', '_on_finish_1', '_on_finish_2']);
});
