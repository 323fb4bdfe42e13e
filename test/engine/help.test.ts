// One batch lives in one partition, and that belongs to one thread: another one that has nothing to do helps.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis } from '../helpers/redis.ts';
import { allEnded, audit, createLoad } from './load.ts';
import { freshPath } from './stage.ts';

const TASKS = 1_000;
/** Of one host a thread has half of its places in flight. */
const ENV = { SLUICE_CALLBACK_THREADS: '2', SLUICE_CALLBACKS_PER_THREAD: '256' };
const OF_ONE_THREAD_MAX = 128 + 16;

const redis = await startRedis();
const receiver = await startReceiver();
const engine = await startEngine({ redis_url: `unix://${redis.path}`, env: ENV });
const client = api(engine, TOKENS.acme);

test('of one batch more is in flight than its thread can have, and each task is called once', async () => {
  const path = freshPath();
  receiver.at(path, { hold: true });
  const load = await createLoad(client, receiver, 1, TASKS, path);
  await receiver.heard(path, OF_ONE_THREAD_MAX + 1);
  receiver.release(path, false);
  await allEnded(client, load, 30_000);
  assert.equal((await audit(client, receiver, load)).repeated_calls, 0);
});
