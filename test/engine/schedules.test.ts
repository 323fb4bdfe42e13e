// Schedules of two engines on one Redis, of which one is killed; and how late a thousand runs of one second start.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis } from '../helpers/redis.ts';
import { race } from './schedules.ts';

test('two processes race over 100 schedules with ticks of a second, and one is killed twice: each tick is decided once', async (t) => {
  const { path } = await startRedis();
  const { runs, skipped } = await race({ redis_url: `unix://${path}`, schedules: 100, seconds: 8, kills: 2 });
  t.diagnostic(`${runs} runs, ${skipped} ticks skipped`);
});

test('a thousand schedules that are due at the same second start together', async (t) => {
  const { path } = await startRedis();
  const receiver = await startReceiver();
  const client = api(await startEngine({ redis_url: `unix://${path}` }), TOKENS.acme);
  const target = receiver.at('/together');
  const due_ms = (Math.floor(Date.now() / 1_000) + 8) * 1_000;
  const at = new Date(due_ms);
  const cron = `${at.getUTCSeconds()} ${at.getUTCMinutes()} ${at.getUTCHours()} * * *`;
  const create = () => client.ask('POST', '/v1/schedules', { body: { cron, timezone: 'UTC', task_template: { target } } });
  for (let i = 0; i < 1_000; i += 50) await Promise.all(Array.from({ length: 50 }, create));
  assert.ok(Date.now() < due_ms, 'made in time');
  await receiver.heard('/together', 1_000);
  const late = receiver
    .to('/together')
    .map(({ at_ms }) => at_ms - due_ms)
    .toSorted((a, b) => a - b);
  t.diagnostic(`late by ${late[500]} ms at p50, ${late[990]} at p99, ${late[999]} at most`);
  assert.ok((late[0] ?? -1) >= 0, 'none before its time');
  assert.equal(late.length, 1_000); // How late is a matter of the machine: see the bench.
});
