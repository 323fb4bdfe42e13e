// Many tasks through one engine that keeps finished batches for a short time only: at the end nothing is left of them.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after } from 'node:test';
import { Receiver } from '../../bench/lib/receiver.ts';
import { api } from '../helpers/api.ts';
import { type Engine, startEngine, TOKENS } from '../helpers/engine.ts';
import { callbacks } from '../helpers/metrics.ts';
import { startRedis, until } from '../helpers/redis.ts';

export interface Soak {
  /** As `used_memory`, at regular times while work came in. */
  redis_bytes: number[];
  /** The engine's, at the same times. */
  rss_bytes: number[];
  took_ms: number;
}

const BATCH_TASKS = 1_000;
const CREATORS = 4;
/** Created and not called yet. */
const BACKLOG_MAX = 20_000;
const STEP_MS_MAX = 60_000;
const PAYLOAD = 'x'.repeat(200);

export async function soak(options: { tasks: number; retention_s: number; sample_ms: number }): Promise<Soak> {
  const { tasks, retention_s, sample_ms } = options;
  const { redis, path } = await startRedis();
  // A process that counts: a log of a million calls would be the largest thing on the machine.
  const receiver = await Receiver.start();
  after(() => receiver.stop());
  const engine = await startEngine({ redis_url: `unix://${path}`, env: { SLUICE_RETENTION: `${retention_s}s` } });
  const client = api(engine, TOKENS.acme);
  const task = { target: `${receiver.origin}/hook`, payload: PAYLOAD };
  const body = Buffer.from(JSON.stringify({ tasks: Array.from({ length: BATCH_TASKS }, () => task) }));
  let created = 0;
  const create = async (): Promise<void> => {
    created += BATCH_TASKS;
    const { status, text } = await client.ask('POST', '/v1/batches', { raw: body });
    assert.equal(status, 201, text);
  };

  // What is made once and stays, the first batch makes.
  await create();
  await receiver.received(created);
  const empty = async (keys_max: number): Promise<void> => {
    let keys = 0;
    const gone = async (): Promise<boolean> => {
      keys = await redis.dbsize();
      return keys <= keys_max;
    };
    await until(gone, retention_s * 1_000 + STEP_MS_MAX, 'finished batches to be deleted').catch((error: unknown) => {
      throw new Error(`${String(error)}; ${keys} keys where ${keys_max} were before`);
    });
  };
  const partitions = 16;
  // Of each partition its own key; the installation's, the members and the account's.
  await empty(partitions + 8);
  const keys_before = await redis.dbsize();

  const result: Soak = { redis_bytes: [], rss_bytes: [], took_ms: 0 };
  const began_ms = performance.now();
  const sampler = setInterval(() => {
    result.rss_bytes.push(rssBytes(engine));
    void redis.info('memory').then((text) => result.redis_bytes.push(Number(/^used_memory:(\d+)/m.exec(text)?.[1])));
  }, sample_ms);
  const creator = async (): Promise<void> => {
    while (created < tasks) {
      await create();
      await until(async () => created - (await receiver.count()) < BACKLOG_MAX, STEP_MS_MAX, 'the backlog to shrink');
    }
  };
  await Promise.all(Array.from({ length: CREATORS }, creator)).finally(() => clearInterval(sampler));
  await receiver.received(created);
  result.took_ms = performance.now() - began_ms;
  await until(async () => (await callbacks(engine)) === created, STEP_MS_MAX, 'every call to be counted');
  assert.equal(await receiver.count(), created, 'each was called once');
  await empty(keys_before);
  assert.equal(await engine.stop(), 0);
  return result;
}

function rssBytes({ pid }: Engine): number {
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? Number.NaN) * 1_024;
}
