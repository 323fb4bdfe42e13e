// A call that ran, whose answer was lost, and whose next tries are refused: what it ends with must not say that nothing was done.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { ChainableCommander, Cluster, Redis } from 'ioredis';
import { createLog } from '../../src/base/log.ts';
import { parseRedisUrl } from '../../src/store/address.ts';
import { openConnection } from '../../src/store/client.ts';
import { changedNothing, isUnavailable } from '../../src/store/errors.ts';
import { execPipeline, type RedisClient, type Script, textOf } from '../../src/store/script.ts';
import { startCluster } from '../helpers/cluster.ts';
import { startRedis, until } from '../helpers/redis.ts';
import { startRelay } from '../helpers/relay.ts';
import { plainScript } from '../helpers/script.ts';

const WAYS = [
  ['a call', (client: RedisClient, act: Act) => act.call(client, { n: 'n' }, {})],
  ['a call behind another', (client: RedisClient, act: Act) => act.callToldFirst(client, { n: 'n' }, {})],
  ['a pipeline', (client: RedisClient, act: Act) => piped(client, (pipeline) => act.queue(pipeline, { n: 'n' }, {}))],
] as const;

type Act = Script<{ n: string }, Record<never, never>, number>;

/** A script that changes `n`. */
function acts(lua: string): Act {
  return plainScript('act', ['n'], [], lua);
}

/** The error of a pipeline's one call. */
async function piped(client: RedisClient, queue: (pipeline: ChainableCommander) => void): Promise<void> {
  const pipeline = client.pipeline();
  queue(pipeline);
  const [reply] = await execPipeline(client, pipeline);
  if (reply?.[0]) throw reply[0];
}

async function open(url: string): Promise<RedisClient> {
  const client = await openConnection(parseRedisUrl(url), { role: 'test', log: createLog({ level: 'silent' }) });
  after(() => client.disconnect());
  return client;
}

function mayHaveRun(error: unknown): true {
  assert.deepEqual([changedNothing(error), isUnavailable(error)], [false, true], String(error));
  return true;
}

/** It was sent again, and refused. */
function refusedAtLast(error: unknown): true {
  assert.match(String(error), /Perhaps done, then refused: OOM/);
  return mayHaveRun(error);
}

for (const [what, run, forgets] of WAYS.flatMap(([what, run]) => [false, true].map((forgets) => [what, run, forgets] as const))) {
  test(`${what} on one server that is over its memory limit when it is back${forgets ? ', without its scripts' : ''}`, async () => {
    const { redis, path } = await startRedis();
    const relay = await startRelay(path);
    after(() => relay.close());
    const client = await open(`redis://127.0.0.1:${relay.port}`);
    const act = acts("return redis.call('INCR', KEYS[1])");
    await redis.script('LOAD', textOf(act));
    relay.passes = () => false;
    const ended = assert.rejects(run(client, act), refusedAtLast);
    await until(async () => (await redis.get('n')) === '1', 2_000, 'it to run');
    await redis.config('SET', 'maxmemory', 1);
    if (forgets) await redis.script('FLUSH');
    relay.passes = () => true;
    relay.cut();
    await ended;
    assert.equal(await redis.get('n'), '1');
  });
}

for (const [what, run] of WAYS) {
  test(`${what} on a Cluster whose node refuses it when it is back`, async () => {
    const cluster = await startCluster();
    const client = (await open(cluster.url)) as Cluster;
    const act = acts(
      "if redis.call('EXISTS', KEYS[1]) == 1 then return redis.error_reply('OOM over the limit') end return redis.call('INCR', KEYS[1])",
    );
    const { redis, port } = await cluster.masterOf('n');
    await redis.script('LOAD', textOf(act));
    const link = await linkTo(client, port);
    const ended = assert.rejects(run(client, act), refusedAtLast);
    // What was written above is with the server, and no answer has been read.
    link.stream.destroy();
    await ended;
    assert.equal(await redis.get('n'), '1');
  });
}

test('a call that is refused at its first try changed nothing', async () => {
  const { redis, path } = await startRedis();
  const client = await open(`unix://${path}`);
  await redis.config('SET', 'maxmemory', 1);
  for (const [, run] of WAYS) {
    await assert.rejects(run(client, acts("return redis.call('INCR', KEYS[1])")), (error) => {
      assert.equal(changedNothing(error), true, String(error));
      return true;
    });
  }
});

/** A pipeline to a master that stands still, whose connection is cut after so long; how long it took. */
async function cutAfter(cut_ms: number, check: (client: Cluster, redis: Redis) => Promise<void> = async () => {}): Promise<number> {
  const cluster = await startCluster({ node_timeout_ms: 15_000 });
  const client = (await open(cluster.url)) as Cluster;
  const master = await cluster.masterOf('n');
  const link = await linkTo(client, master.port);
  master.freeze();
  const start_ms = performance.now();
  let took_ms: number;
  try {
    const ended = assert.rejects(
      piped(client, (pipeline) => pipeline.incr('n')),
      mayHaveRun,
    );
    await pause(cut_ms);
    link.stream.destroy();
    await ended;
    took_ms = performance.now() - start_ms;
  } finally {
    master.thaw();
  }
  await check(client, master.redis);
  return took_ms;
}

test('a pipeline on a Cluster ends two seconds after its first try, whatever becomes of the next ones', async () => {
  const took_ms = await cutAfter(1_000);
  assert.ok(took_ms > 1_900 && took_ms < 2_900, `${took_ms} ms`);
});

test('a pipeline on a Cluster begins no try after that', async () => {
  // The next one would come a tenth of a second after the cut.
  await cutAfter(1_950, async (client, redis) => {
    // Behind whatever waits for the node.
    await until(() => client.exists('n').then(Boolean, () => false), 5_000, 'the first try to run');
    assert.equal(await redis.get('n'), '1');
  });
});

/** The open connection of this client to the node with this port. */
async function linkTo(client: Cluster, port: number): Promise<Redis> {
  const [link = assert.fail('no such node')] = client.nodes('master').filter((node) => node.options.port === port);
  await link.ping();
  return link;
}
