// kill -9 in the middle of notifications: each event was written once, by the script that caused it, and reaches its
// receiver at least once, under one id and with one body.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis, until } from '../helpers/redis.ts';
import { tasksFor } from './stage.ts';

/** Few in flight: what is there at two deaths comes back one by one, 100 ms apart. */
const ENV = {
  SLUICE_CALLBACK_THREADS: '1',
  SLUICE_CONNECTIONS_PER_ORIGIN: '64',
  SLUICE_HOLDER_SILENCE: '2s',
  SLUICE_SWEEP_INTERVAL: '0.5s',
};
const TASKS = 1_500;
const KILLS = 3;

test('an engine that is killed again and again loses no notification and makes none twice', async (t) => {
  const redis = await startRedis();
  const receiver = await startReceiver();
  const hook = receiver.at('/hook', { delay_ms: 20 });
  const webhook = { url: hook };
  const notifications = { on_progress: webhook, on_finish: webhook, on_success: webhook, on_complete: webhook };
  let engine = await startEngine({ redis_url: `unix://${redis.path}`, env: ENV });
  const { id } = await api(engine, TOKENS.acme).create({ notifications, tasks: tasksFor(receiver.at('/task', { delay_ms: 10 }), TASKS) });
  for (let kill = 1; kill <= KILLS; kill++) {
    await receiver.heard('/hook', (TASKS * kill) / (KILLS + 1));
    await engine.kill9();
    engine = await startEngine({ redis_url: `unix://${redis.path}`, env: ENV });
  }
  await api(engine, TOKENS.acme).ended(id, 'completed', 60_000);
  const wanted = TASKS + 3;
  const bodies = (): Map<string, Set<string>> => {
    const by_id = new Map<string, Set<string>>();
    for (const call of receiver.to('/hook')) by_id.set(call.id, (by_id.get(call.id) ?? new Set()).add(call.body.toString()));
    return by_id;
  };
  await until(() => bodies().size >= wanted, 60_000, `${wanted} notifications`);
  const heard = bodies();
  assert.equal(heard.size, wanted);
  for (const [webhook_id, texts] of heard) assert.equal(texts.size, 1, `${webhook_id} has one body`);
  for (const event of ['on_finish', 'on_success', 'on_complete']) assert.ok(heard.has(`${id}_${event}_1`), event);
  const completed = [...heard].flatMap(([name, [text = '']]) =>
    name.includes('_on_progress_') ? [(JSON.parse(text) as { batch: { stats: { completed: number } } }).batch.stats.completed] : [],
  );
  assert.deepEqual(
    completed.sort((a, b) => a - b),
    Array.from({ length: TASKS }, (_, k) => k + 1),
  );
  t.diagnostic(`${receiver.to('/hook').length - wanted} of ${wanted} notifications came twice`);
});
