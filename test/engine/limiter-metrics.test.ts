// What an engine's /metrics says of rate limiters after real tasks have waited for them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { until } from '../helpers/redis.ts';
import { makeLimiter } from './limiting.ts';
import { freshPath, tasksFor } from './stage.ts';

const METRICS_TOKEN = 'metrics-token-of-the-tests';
const SHOWN_MS_MAX = 20_000;

const receiver = await startReceiver();

test('granted, waiting, waited and expired, by kind and by limiter; a process that serves everybody names none', async () => {
  const engine = await startEngine({ env: { SLUICE_METRICS_TOKEN: METRICS_TOKEN } });
  const client = api(engine, TOKENS.acme);
  const read = async (): Promise<Map<string, number>> => {
    const text = await (await fetch(`${engine.url}/metrics`, { headers: { authorization: `Bearer ${METRICS_TOKEN}` } })).text();
    const lines = text.split('\n').filter((line) => line.startsWith('sluice_'));
    return new Map(lines.map((line) => [line.slice('sluice_'.length, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]));
  };
  const shows = async (expected: Record<string, number>): Promise<void> => {
    let seen: (number | undefined)[] = [];
    await until(
      async () => {
        const all = await read();
        seen = Object.keys(expected).map((name) => all.get(name));
        return Object.values(expected).every((value, i) => value === seen[i]);
      },
      SHOWN_MS_MAX,
      'the numbers',
    ).catch(() => assert.deepEqual(Object.fromEntries(Object.keys(expected).map((name, i) => [name, seen[i]])), expected));
  };

  const { name } = await makeLimiter(client, 'concurrent', { limit: 2 });
  const impatient = await makeLimiter(client, 'window', { limit: 3, interval: 3_600 }, { timeouts: { queue_timeout: 1 } });
  const of = `account="acme",limiter="${name}"`;
  const of_impatient = `account="acme",limiter="${impatient.name}"`;
  const path = freshPath();
  const url = receiver.at(path, { hold: true });
  const { id } = await client.create({ tasks: tasksFor(url, 9, { rate_limiter: name }) });
  const short = await client.create({ tasks: tasksFor(receiver.at(freshPath(), {}), 7, { rate_limiter: impatient.name }) });
  await receiver.heard(path, 2);
  await shows({
    'limiter_waiting{type="concurrent"}': 7,
    [`limiter_top_waiting{${of}}`]: 7,
    'limiter_grants_total{type="concurrent"}': 2,
    [`limiter_top_grants_total{${of}}`]: 2,
  });
  await client.ended(short.id, 'failed');
  await shows({
    'queue_depth{class="limited"}': 7,
    'limiter_waiting{type="window"}': 0,
    'limiter_timeouts_total{type="window"}': 4,
    [`limiter_top_timeouts_total{${of_impatient}}`]: 4,
    [`limiter_top_grants_total{${of_impatient}}`]: 3,
    [`limiter_top_waiting{${of_impatient}}`]: 0,
  });
  receiver.release(path);
  await client.ended(id, 'completed');
  await shows({
    [`limiter_top_grants_total{${of}}`]: 9,
    [`limiter_top_wait_seconds_count{${of}}`]: 9,
    [`limiter_top_timeouts_total{${of}}`]: 0,
    [`limiter_top_slots_reclaimed_total{${of}}`]: 0,
    'limiter_wait_seconds_count{type="concurrent"}': 9,
    'limiter_waiting{type="concurrent"}': 0,
    [`limiter_top_waiting{${of}}`]: 0,
  });
  const all = await read();
  assert.ok((all.get(`limiter_top_wait_seconds_sum{${of}}`) ?? 0) > 0.5, 'seven waited while two were held');
});

test('an open /metrics adds up what limiters do, and names no account', async () => {
  const engine = await startEngine();
  const client = api(engine, TOKENS.acme);
  const { name } = await makeLimiter(client, 'bucket', { limit: 100, interval: 1 });
  const { id } = await client.create({ tasks: tasksFor(receiver.at(freshPath(), {}), 5, { rate_limiter: name }) });
  await client.ended(id, 'completed');
  const text = async (): Promise<string> => (await fetch(`${engine.url}/metrics`)).text();
  // A start that a busy machine let grow too old is granted again.
  const grants = async (): Promise<number> =>
    Number(/^sluice_limiter_top_grants_total\{account="",limiter="other"\} (\d+)$/m.exec(await text())?.[1]);
  await until(async () => (await grants()) >= 5, SHOWN_MS_MAX, 'five grants');
  assert.doesNotMatch(await text(), /acme|limit-/);
});
