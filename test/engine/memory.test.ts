// A Redis that fills up: new work is refused, work that was accepted ends, what has finished makes room, and new work is
// taken again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis, until } from '../helpers/redis.ts';

const MAX_BYTES = 64 * 1_048_576;
const TASKS = 20;
const PAYLOAD = 'x'.repeat(100_000);

test('a Redis without room refuses new work with 503, ends what it has, and takes work again', async () => {
  const { redis, path } = await startRedis({ args: ['--maxmemory', String(MAX_BYTES)] });
  const engine = await startEngine({ redis_url: `unix://${path}`, env: { SLUICE_PARTITIONS: '2' } });
  const client = api(engine, TOKENS.acme);
  const receiver = await startReceiver();
  const held_url = receiver.at('/held', { hold: true });
  const body = (url: string): object => ({
    tasks: Array.from({ length: TASKS }, () => ({ target: { url, method: 'POST' }, payload: PAYLOAD })),
  });

  const waiting: string[] = [];
  let refusal = await client.ask('POST', '/v1/batches', { body: body(held_url) });
  for (; refusal.status === 201; refusal = await client.ask('POST', '/v1/batches', { body: body(held_url) })) {
    waiting.push((refusal.json as { id: string }).id);
    assert.ok(waiting.length < 60, 'nothing is ever refused');
  }
  assert.equal(refusal.status, 503);
  assert.equal((refusal.json as { error: { code: string } }).error.code, 'unavailable');
  assert.ok(Number(refusal.headers['retry-after']) >= 1);
  const task = { target: held_url };
  const others = () =>
    Promise.all([
      client.ask('POST', '/v1/tasks', { body: task }),
      client.ask('POST', `/v1/batches/${waiting[0]}/tasks`, { body: { tasks: [task] } }),
    ]);
  await until(async () => (await others()).every(({ status }) => status === 503), 5_000, 'single tasks and adds to be refused too');

  // From here on nothing fits any more, not even what the front door would let through.
  const used = Number(/used_memory:(\d+)/.exec(await redis.info('memory'))?.[1]);
  await redis.config('SET', 'maxmemory', String(used - 1_000_000));
  await assert.rejects(redis.set('more', 'x'), /^ReplyError: OOM/);
  assert.equal((await client.batch(waiting[0] ?? '')).status, 'processing', 'reading goes on');
  receiver.release('/held', false);
  await until(async () => (await counted(engine.url, 'sluice_retention_early_total')) > 0, 20_000, 'finished batches to make room');

  let taken = '';
  const tried = async (): Promise<boolean> => {
    const { status, json } = await client.ask('POST', '/v1/batches', { body: { tasks: [task] } });
    if (status === 201) taken = (json as { id: string }).id;
    return status === 201;
  };
  await until(tried, 20_000, 'new work to be taken');
  await client.ended(taken, 'completed');
  const all = async (): Promise<boolean> =>
    (await counted(engine.url, 'sluice_callbacks_total{outcome="completed"}')) >= waiting.length * TASKS + 1;
  await until(all, 5_000, 'every accepted task to be counted');
  assert.equal(await engine.stop(), 0);
});

async function counted(url: string, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const line = text.split('\n').find((one) => one.startsWith(`${name} `));
  return Number(line?.slice(name.length + 1) ?? 0);
}
