import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { createLog } from '../../src/base/log.ts';
import { openStore, type Store } from '../../src/store/connect.ts';
import type { HintOptions, Hints } from '../../src/store/hints.ts';
import { keys } from '../../src/store/keys.ts';
import { startCluster, type TestCluster, type TestNode } from '../helpers/cluster.ts';
import { startRedis, until } from '../helpers/redis.ts';
import { startRelay } from '../helpers/relay.ts';

/** What a test has opened; undone in reverse order. */
const undo: (() => unknown)[] = [];
afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each();
});

test('a hint reaches its handler, and no longer after the end of the subscription', async () => {
  const { redis, path } = await startRedis();
  const { hints } = await open(`unix://${path}`);
  const heard: string[] = [];
  const handler = (message: string, channel: string): void => void heard.push(`${channel} ${message}`);
  assert.deepEqual(await Promise.all([hints.subscribe('{a}x', handler), hints.subscribe('{b}y', handler)]), [true, true]);
  await redis.spublish('{a}x', 'one');
  await redis.spublish('{b}y', '');
  await until(() => heard.length === 2, 1_000, 'two hints');
  assert.deepEqual(heard, ['{a}x one', '{b}y ']);
  hints.unsubscribe('{a}x');
  await until(async () => (await redis.spublish('{a}x', 'two')) === 0, 1_000, 'the end of the subscription');
  assert.equal(heard.length, 2);
});

test('a handler that throws does not end the others', async () => {
  const { redis, path } = await startRedis();
  const { hints } = await open(`unix://${path}`);
  let heard = 0;
  const broken = (): void => {
    throw new Error('broken');
  };
  await Promise.all([hints.subscribe('{a}x', broken), hints.subscribe('{a}y', () => void heard++)]);
  await redis.spublish('{a}x', '');
  await redis.spublish('{a}y', '');
  await until(() => heard === 1, 1_000, 'the second hint');
});

test('after its connection was killed a subscriber hears again and says that there was a gap', async () => {
  const { redis, path } = await startRedis();
  const gaps: string[] = [];
  const { hints } = await open(`unix://${path}`, { onGap: (channel) => void gaps.push(channel) });
  let heard = 0;
  await hints.subscribe('{a}x', () => void heard++);
  await redis.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
  await until(() => gaps.length === 1, 2_000, 'the gap');
  assert.deepEqual(gaps, ['{a}x']);
  assert.equal(await redis.spublish('{a}x', ''), 1);
  await until(() => heard === 1, 1_000, 'the hint');
});

test('a subscription that the server lost without a word is found and made again', async () => {
  const { redis, path } = await startRedis();
  const relay = await startRelay(path);
  undo.push(() => relay.close());
  const lines: string[] = [];
  const { hints } = await open(`redis://127.0.0.1:${relay.port}`, { check_interval_ms: 50 }, lines);
  let heard = 0;
  await hints.subscribe('{a}x', () => void heard++);
  relay.passes = (answer) => !answer.includes('sunsubscribe');
  relay.inject('*1\r\n$12\r\nSUNSUBSCRIBE\r\n');
  await until(() => lines.some((line) => line.includes('redis lost subscriptions')), 5_000, 'the loss to be found');
  await until(async () => (await redis.spublish('{a}x', '')) === 1, 5_000, 'the subscription');
  await until(() => heard > 0, 1_000, 'the hint');
});

test('a frozen server is noticed, and heard again when it thaws', async () => {
  const { redis, path } = await startRedis();
  const gaps: string[] = [];
  const lines: string[] = [];
  const { hints } = await open(`unix://${path}`, { check_interval_ms: 50, onGap: (channel) => void gaps.push(channel) }, lines);
  await hints.subscribe('{a}x', () => {});
  const pid = Number(/process_id:(\d+)/.exec(await redis.info('server'))?.[1]);
  process.kill(pid, 'SIGSTOP');
  undo.push(() => process.kill(pid, 'SIGCONT'));
  await until(() => lines.some((line) => line.includes('does not answer; opening a new one')), 5_000, 'the freeze to be noticed');
  process.kill(pid, 'SIGCONT');
  await until(() => gaps.length > 0, 10_000, 'the gap');
  await until(async () => (await redis.spublish('{a}x', '')) === 1, 2_000, 'one subscription');
});

test('a subscription made while nobody answers is told so, and comes true later', async () => {
  const { redis, path } = await startRedis();
  const gaps: string[] = [];
  const { hints } = await open(`unix://${path}`, { check_interval_ms: 60_000, onGap: (channel) => void gaps.push(channel) });
  await hints.subscribe('{a}x', () => {});
  const pid = Number(/process_id:(\d+)/.exec(await redis.info('server'))?.[1]);
  process.kill(pid, 'SIGSTOP');
  undo.push(() => process.kill(pid, 'SIGCONT'));
  assert.equal(await hints.subscribe('{a}late', () => {}), false);
  assert.equal(gaps.length, 0);
  process.kill(pid, 'SIGCONT');
  await until(async () => (await redis.spublish('{a}late', '')) === 1, 10_000, 'the late subscription');
  await until(() => gaps.includes('{a}late'), 1_000, 'the end of the gap');
});

test('who is not heard at all is told to look again and again', async () => {
  const { redis, path } = await startRedis();
  const told: string[] = [];
  const relay = await startRelay(path);
  undo.push(() => relay.close());
  await redis.acl('SETUSER', 'deaf', 'on', '>secret', '~*', '+@all', 'resetchannels');
  const { hints } = await open(`redis://deaf:secret@127.0.0.1:${relay.port}`, {
    check_interval_ms: 50,
    onDeaf: (channel) => void told.push(channel),
  });
  assert.equal(await hints.subscribe('{a}x', () => {}), false);
  const before = told.length;
  await until(() => told.length > before + 3, 5_000, 'to be told to look');
  await redis.acl('SETUSER', 'deaf', 'allchannels');
  await until(async () => (await redis.spublish('{a}x', '')) === 1, 5_000, 'the subscription');
});

test('on a Cluster', async (t) => {
  const cluster = await startCluster({ node_timeout_ms: 1000 });
  const url = cluster.url;
  const channels = Array.from({ length: 16 }, (_, p) => keys.bell(p));

  await t.test('channels of all masters are heard', async () => {
    const { hints, store } = await open(url);
    const heard = await subscribeAll(hints, channels);
    for (const channel of channels) await store.client.spublish(channel, '');
    await until(() => heard.size === channels.length, 2_000, 'all hints');
  });

  await t.test('after a master was killed its channels are heard on its successor', async () => {
    const gaps = new Set<string>();
    const { hints, store } = await open(url, { onGap: (channel) => void gaps.add(channel) });
    const heard = await subscribeAll(hints, channels);
    const [channel = ''] = channels;
    const master = await cluster.masterOf(channel);
    await master.kill();
    await until(() => reaches(store, channels, heard), 20_000, 'all hints after the failover');
    assert.ok(gaps.has(channel));
    await master.start();
    await cluster.ready();
    await until(() => reaches(store, channels, heard), 20_000, 'all hints after the return');
  });

  await t.test('a channel follows its slot to another master', async () => {
    const { hints, store } = await open(url);
    const [channel = ''] = channels;
    const heard = await subscribeAll(hints, [channel]);
    await moveSlot(cluster, channel);
    await until(() => reaches(store, [channel], heard), 10_000, 'the hint from the new master');
  });

  await t.test('a frozen master does not make its channels deaf for longer than the failover', async () => {
    const { hints, store } = await open(url, { check_interval_ms: 500 });
    const heard = await subscribeAll(hints, channels);
    const master = await cluster.masterOf(channels[1] ?? '');
    const pid = Number(/process_id:(\d+)/.exec(await master.redis.info('server'))?.[1]);
    process.kill(pid, 'SIGSTOP');
    undo.push(() => process.kill(pid, 'SIGCONT'));
    await until(() => reaches(store, channels, heard), 30_000, 'all hints after the failover');
    process.kill(pid, 'SIGCONT');
    await cluster.ready();
    await until(() => reaches(store, channels, heard), 20_000, 'all hints after the thaw');
  });
});

async function open(redis_url: string, options: HintOptions = {}, lines: string[] = []): Promise<{ store: Store; hints: Hints }> {
  const log = createLog({ destination: { write: (line) => void lines.push(line) } });
  const store = await openStore({ redis_url, data_dir: '/nonexistent', partitions: 16, log, role: 'test' });
  undo.push(() => store.close());
  return { store, hints: store.subscriber(options) };
}

async function subscribeAll(hints: Hints, channels: readonly string[]): Promise<Set<string>> {
  const heard = new Set<string>();
  const confirmed = await Promise.all(channels.map((channel) => hints.subscribe(channel, (_, name) => void heard.add(name))));
  assert.ok(confirmed.every(Boolean));
  return heard;
}

/** Publishes on every channel once, and says whether all arrive within a moment. */
async function reaches(store: Store, channels: readonly string[], heard: Set<string>): Promise<boolean> {
  heard.clear();
  const sent = await Promise.allSettled(channels.map((channel) => store.client.spublish(channel, '')));
  if (sent.some(({ status }) => status === 'rejected')) return false;
  return until(() => heard.size === channels.length, 200, 'all hints').then(
    () => true,
    () => false,
  );
}

/** Gives the (keyless) slot of a channel to another master, as a resharding ends. */
async function moveSlot(cluster: TestCluster, channel: string): Promise<void> {
  const from = await cluster.masterOf(channel);
  const slot = Number(await from.redis.cluster('KEYSLOT', channel));
  const to = await otherMaster(cluster, from);
  await to.redis.cluster('SETSLOT', slot, 'IMPORTING', from.id);
  await from.redis.cluster('SETSLOT', slot, 'MIGRATING', to.id);
  for (const node of [to, from]) await node.redis.cluster('SETSLOT', slot, 'NODE', to.id);
  await until(async () => (await cluster.masterOf(channel)) === to, 10_000, 'all to know the new master');
}

async function otherMaster(cluster: TestCluster, not: TestNode): Promise<TestNode> {
  for (const node of cluster.nodes) {
    if (node !== not && /role:master/.test(await node.redis.info('replication'))) return node;
  }
  throw new Error('there is one master only');
}
