// A call that ran, whose answer was lost, and whose next tries are refused: what it ends with must not say that nothing was done.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { ChainableCommander, Cluster } from 'ioredis';
import { createLog } from '../../src/base/log.ts';
import { parseRedisUrl } from '../../src/store/address.ts';
import { parseInfo } from '../../src/store/checks.ts';
import { openConnection } from '../../src/store/client.ts';
import { changedNothing, isUnavailable } from '../../src/store/errors.ts';
import { execPipeline, type RedisClient, type Script, script } from '../../src/store/script.ts';
import { startCluster } from '../helpers/cluster.ts';
import { startRedis, until } from '../helpers/redis.ts';
import { startRelay } from '../helpers/relay.ts';

const WAYS = [
  ['a call', (client: RedisClient, act: Act) => act.call(client, { n: act.key }, {})],
  ['a pipeline', (client: RedisClient, act: Act) => piped(client, (pipeline) => act.queue(pipeline, { n: act.key }, {}))],
] as const;

type Act = Script<{ n: string }, Record<never, never>, number> & { key: string };

/** A script that changes `key`. */
function acts(key: string, lua: string): Act {
  return { ...script({ name: 'act', keys: ['n'], args: [], rest: null, map: [], lua }), key };
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

for (const [what, run] of WAYS) {
  test(`${what} on one server that is over its memory limit when it is back`, async () => {
    const { redis, path } = await startRedis();
    const relay = await startRelay(path);
    after(() => relay.close());
    const client = await open(`redis://127.0.0.1:${relay.port}`);
    const act = acts('n', "return redis.call('INCR', KEYS[1])");
    await redis.script('LOAD', act.lua);
    relay.passes = () => false;
    const ended = assert.rejects(run(client, act), mayHaveRun);
    await until(async () => (await redis.get('n')) === '1', 2_000, 'it to run');
    await redis.config('SET', 'maxmemory', 1);
    relay.passes = () => true;
    relay.cut();
    await ended;
    assert.equal(await redis.get('n'), '1');
  });

  test(`${what} on a Cluster whose node no longer serves the slot`, async () => {
    const cluster = await startCluster();
    const client = (await open(cluster.url)) as Cluster;
    const { redis, port } = await cluster.masterOf('n');
    const slot = await redis.cluster('KEYSLOT', 'n');
    // From then on every try is refused.
    const act = acts('n', `redis.call('INCR', KEYS[1]) redis.call('CLUSTER', 'DELSLOTS', '${slot}') return 1`);
    for (const node of cluster.nodes) await node.redis.script('LOAD', act.lua);
    await client.exists('n');
    const ended = assert.rejects(run(client, act), mayHaveRun);
    // What was written above is with the server, and no answer has been read.
    const [link] = client.nodes('master').filter((node) => node.options.port === port);
    link?.stream.destroy();
    await ended;
    await redis.cluster('ADDSLOTS', slot);
    assert.equal(await redis.get('n'), '1');
  });
}

test('a call that is refused at its first try changed nothing', async () => {
  const { redis, path } = await startRedis();
  const client = await open(`unix://${path}`);
  await redis.config('SET', 'maxmemory', 1);
  for (const [, run] of WAYS) {
    await assert.rejects(run(client, acts('n', "return redis.call('INCR', KEYS[1])")), (error) => {
      assert.equal(changedNothing(error), true, String(error));
      return true;
    });
  }
});

test('a pipeline on a Cluster ends two seconds after its first try, whatever becomes of the next ones', async () => {
  const cluster = await startCluster({ node_timeout_ms: 15_000 });
  const client = (await open(cluster.url)) as Cluster;
  const { redis, port } = await cluster.masterOf('n');
  const pid = Number(parseInfo(await redis.info()).get('process_id'));
  const [link] = client.nodes('master').filter((node) => node.options.port === port);
  await link?.ping();
  process.kill(pid, 'SIGSTOP');
  try {
    const start_ms = performance.now();
    const ended = assert.rejects(
      piped(client, (pipeline) => pipeline.incr('n')),
      mayHaveRun,
    );
    await pause(1_000);
    link?.stream.destroy();
    await ended;
    const took_ms = performance.now() - start_ms;
    assert.ok(took_ms > 1_900 && took_ms < 2_600, `${took_ms} ms`);
  } finally {
    process.kill(pid, 'SIGCONT');
  }
});
