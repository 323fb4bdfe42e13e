// The client while a slot moves from one master to another: calls fail with nothing done, on either side, until it has moved.
import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { Cluster } from 'ioredis';
import { createLog } from '../../src/base/log.ts';
import { openStore, type RedisClient, type Store } from '../../src/store/connect.ts';
import { changedNothing, isUnavailable } from '../../src/store/errors.ts';
import { execPipeline } from '../../src/store/script.ts';
import { startCluster } from '../helpers/cluster.ts';
import { beginMove, type Move } from '../helpers/reshard.ts';
import { plainScript } from '../helpers/script.ts';

const cluster = await startCluster();
const [MOVED, HERE, ABSENT] = ['{m}moved', '{m}zhere', '{m}absent'];
let store: Store;
let client: Cluster;

/** Counts what it finds and writes a key, as a script would that trusts what it sees. */
const naive = plainScript<{ key: string }, { name: string }, number>(
  'naive',
  ['key'],
  ['name'],
  "#!lua\nredis.call('APPEND', KEYS[1], ARGV[1])\nreturn redis.call('STRLEN', KEYS[1])",
);

beforeEach(async () => {
  const log = createLog({ level: 'silent' });
  const redis_url = `redis+cluster://127.0.0.1:${cluster.nodes[0]?.port}`;
  store = await openStore({ redis_url, data_dir: '/nonexistent', partitions: 16, log, role: 'test' });
  assert.ok(store.client instanceof Cluster);
  client = store.client;
  await client.set(MOVED, 'a');
  await client.set(HERE, 'b');
});
afterEach(() => store.close());

/** One key of the slot is on the new side, one on the old one. */
async function halfMove(): Promise<Move> {
  const move = await beginMove(cluster, MOVED);
  await move.from.redis.call('MIGRATE', '127.0.0.1', move.to.port, MOVED, 0, 5_000);
  return move;
}

async function refused(call: Promise<unknown>, what: string): Promise<void> {
  await assert.rejects(call, (error: Error) => {
    assert.match(error.message, /^TRYAGAIN/, what);
    return isUnavailable(error) && changedNothing(error);
  });
}

async function asked({ to }: Move): Promise<number> {
  return Number(/cmdstat_asking:calls=(\d+)/.exec(await to.redis.info('commandstats'))?.[1] ?? 0);
}

test('a key that has moved or is absent is an error, one that is here is served; nobody asks the other side', async () => {
  const move = await halfMove();
  const before = await asked(move);
  await refused(client.get(MOVED), 'moved');
  await refused(client.get(ABSENT), 'absent');
  await refused(client.set(ABSENT, 'x'), 'written');
  await refused(client.mget(MOVED, HERE), 'both');
  assert.equal(await client.get(HERE), 'b');
  await refused(naive.call(client, { key: MOVED }, { name: 'x' }), 'script');
  await refused(naive.callBuffer(client, { key: ABSENT }, { name: 'x' }), 'script, Buffers');
  assert.equal(await asked(move), before);
  await move.finish();
  assert.deepEqual(await client.mget(MOVED, HERE, ABSENT), ['a', 'b', null]);
});

test('in a pipeline each command has its reply, and none is sent to the other side', async () => {
  const move = await halfMove();
  const before = await asked(move);
  const one = client.pipeline();
  naive.queue(one, { key: MOVED }, { name: 'x' });
  const [reply, ...more] = await execPipeline(client, one);
  assert.match(String(reply?.[0]), /TRYAGAIN/);
  assert.equal(more.length, 0);

  const same = client.pipeline();
  for (let i = 0; i < 3; i++) same.get(MOVED);
  assert.deepEqual(
    (await execPipeline(client, same)).map(([error]) => String(error).includes('TRYAGAIN')),
    [true, true, true],
  );

  const mixed = client.pipeline();
  mixed.get(HERE);
  mixed.set(ABSENT, 'x');
  naive.queueBuffer(mixed, { key: MOVED }, { name: 'x' });
  naive.queue(mixed, { key: HERE }, { name: 'c' });
  const replies = await execPipeline(client, mixed);
  assert.deepEqual(
    replies.map(([error, value]) => (error === null ? value : isUnavailable(error) && changedNothing(error))),
    ['b', true, true, 2],
  );
  assert.equal(await asked(move), before);
  await move.finish();
  assert.deepEqual(await client.mget(MOVED, HERE, ABSENT), ['a', 'bc', null]);
});

test('what has moved whole is found at once, and the slots around it stay where they are', async () => {
  const move = await halfMove();
  await move.finish();
  const neighbours = [move.slot - 1, move.slot + 1].map((slot) => client.slots[slot]?.[0]);
  assert.equal(await client.get(MOVED), 'a');
  assert.equal(client.slots[move.slot]?.[0], `127.0.0.1:${move.to.port}`);
  assert.deepEqual(
    [move.slot - 1, move.slot + 1].map((slot) => client.slots[slot]?.[0]),
    neighbours,
  );
  const again = await beginMove(cluster, MOVED);
  await again.finish();
  const pipeline = client.pipeline();
  pipeline.get(MOVED);
  naive.queue(pipeline, { key: HERE }, { name: 'd' });
  const replies = await execPipeline(client as RedisClient, pipeline);
  assert.deepEqual(
    replies.map(([error, reply]) => [error, reply]),
    [
      [null, 'a'],
      [null, 2],
    ],
    'the replies from the new node',
  );
});
