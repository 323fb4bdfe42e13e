import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, test } from 'node:test';
import { Redis } from 'ioredis';
import { freePort } from '../../bench/lib/ports.ts';
import { createLog } from '../../src/base/log.ts';
import { parseInfo, refuseServer } from '../../src/store/checks.ts';
import { joinStore, openStore, type Store, type StoreOptions } from '../../src/store/connect.ts';
import { isUnavailable, StoreRefused } from '../../src/store/errors.ts';
import { keys } from '../../src/store/keys.ts';
import { preload, type RedisClient, type Script } from '../../src/store/script.ts';
import { startCluster, type TestCluster } from '../helpers/cluster.ts';
import { endProcess, killAtExit, startRedis, until } from '../helpers/redis.ts';
import { type Relay, startRelay } from '../helpers/relay.ts';
import { plainScript } from '../helpers/script.ts';

const log = createLog({ level: 'silent' });

/** What a test has opened; undone in reverse order. */
const undo: (() => unknown)[] = [];
afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each();
});

test('without an address the embedded redis is used, and ends with the store', async () => {
  const data_dir = realpathSync(mkdtempSync(join(tmpdir(), 'sluice-data-')));
  undo.push(() => rmSync(data_dir, { recursive: true }));
  const store = await open({ redis_url: null, data_dir });
  assert.equal(store.kind, 'single');
  const info = parseInfo(await info1(store));
  assert.equal(info.get('tcp_port'), '0');
  await store.close();
  // Dead when the store is closed; its name goes when Node has heard of it.
  await until(() => !exists(Number(info.get('process_id'))), 2_000, 'the process to be gone');
});

/** What became of a pipeline of which one call is enough to know. */
function firstError(replies: [error: Error | null, reply: unknown][] | null): void {
  const error = replies?.[0]?.[0];
  if (error) throw error;
}

const grow: Script<{ n: string }, Record<never, never>, number> = plainScript('grow', ['n'], [], "return redis.call('INCR', KEYS[1])");

function exists(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

test('the first start decides the number of partitions, for ever', async () => {
  const { redis, path } = await startRedis();
  const starts = await Promise.all([8, 16, 32].map((partitions) => open({ redis_url: `unix://${path}`, partitions })));
  const [first] = starts;
  assert.equal(new Set(starts.map(({ partitions }) => partitions)).size, 1);
  assert.equal(await redis.hget(keys.meta(), 'partitions'), String(first?.partitions));
  await redis.hset(keys.meta(), 'format', 2);
  await assert.rejects(open({ redis_url: `unix://${path}` }), refused(/newer Sluice/));
});

test('a thread joins with a copy of the connection', async () => {
  const { path } = await startRedis();
  const store = await open({ redis_url: `unix://${path}?db=3` });
  const { connection, partitions } = structuredClone({ connection: store.connection, partitions: store.partitions });
  const joined = await joinStore({ connection, partitions, log, role: 'worker' });
  undo.push(() => joined.close());
  await store.client.set('here', 'yes');
  assert.equal(await joined.client.get('here'), 'yes');
  assert.match(String(await joined.client.client('INFO')), /name=sluice-worker .*db=3/);
});

test('a redis that would lose work, or is none at all, is refused with the reason', async () => {
  const evicting = await startRedis({ args: ['--maxmemory-policy', 'allkeys-lru'] });
  await assert.rejects(open({ redis_url: `unix://${evicting.path}` }), refused(/maxmemory-policy is "allkeys-lru".*noeviction/));
  await assert.rejects(open({ redis_url: 'redis://127.0.0.1:1', wait_ms: 150 }), refused(/the Redis at 127.0.0.1:1: .*ECONNREFUSED/));
  await assert.rejects(open({ redis_url: 'unix:///nowhere/s', wait_ms: 150 }), refused(/ENOENT/));
  await assert.rejects(open({ redis_url: 'http://x' }), refused(/SLUICE_REDIS_URL must begin with redis:/));
});

test('a wrong password is refused at once', async () => {
  const { redis, path } = await startRedis();
  await redis.config('SET', 'requirepass', 'right');
  const relay = await relayTo(path);
  await assert.rejects(open({ redis_url: `redis://:wrong@127.0.0.1:${relay.port}` }), refused(/refuses the login/));
  await assert.rejects(open({ redis_url: `redis://127.0.0.1:${relay.port}` }), refused(/refuses the login.*NOAUTH/));
  assert.equal((await open({ redis_url: `redis://:right@127.0.0.1:${relay.port}` })).kind, 'single');
});

test('versions before 7.0 are refused, every Valkey is taken', () => {
  const info = (fields: Record<string, string>): ReadonlyMap<string, string> => new Map(Object.entries(fields));
  assert.throws(() => refuseServer(info({ redis_version: '6.2.14' }), 'single'), refused(/Redis 6.2.14 is too old/));
  assert.throws(() => refuseServer(info({}), 'single'), refused(/unknown version/));
  refuseServer(info({ redis_version: '7.0.0' }), 'single');
  refuseServer(info({ redis_version: '10.1.0' }), 'single');
  refuseServer(info({ redis_version: '7.2.4', valkey_version: '8.1.0', redis_mode: 'standalone' }), 'single');
  assert.throws(() => refuseServer(info({ redis_version: '7.0.0', redis_mode: 'sentinel' }), 'single'), refused(/redis\+sentinel/));
});

test('a frozen redis fails calls within about 2 s, then at once, and is used again when it thaws', async () => {
  const server = await startRedis();
  const store = await open({ redis_url: `unix://${server.path}` });
  const pid = Number(parseInfo(await info1(store)).get('process_id'));
  await store.client.set('k', 'v');
  process.kill(pid, 'SIGSTOP');
  undo.push(() => process.kill(pid, 'SIGCONT'));
  const slow = await timed(() => store.client.get('k'));
  assert.ok(isUnavailable(slow.error), String(slow.error));
  assert.ok(slow.ms >= 1_900 && slow.ms < 2_600, `${slow.ms} ms`);
  // After 4 s of silence the connection is given up; a second later nothing waits any more.
  await until(async () => (await timed(() => store.client.get('k'))).ms < 20, 10_000, 'calls to fail at once');
  process.kill(pid, 'SIGCONT');
  await until(
    () =>
      store.client.get('k').then(
        (value) => value === 'v',
        () => false,
      ),
    5_000,
    'the store to be back',
  );
});

test('a cut connection costs nothing where the next connect succeeds', async () => {
  const { path } = await startRedis();
  const relay = await relayTo(path);
  const store = await open({ redis_url: `redis://127.0.0.1:${relay.port}` });
  relay.cut();
  assert.equal(await store.client.incr('n'), 1);
});

test('a redis that is gone fails calls at once', async () => {
  const server = await startRedis();
  const store = await open({ redis_url: `unix://${server.path}` });
  await server.stop();
  await until(() => store.client.status !== 'ready', 2_000, 'the end to be seen');
  const first = await timed(() => store.client.get('k'));
  assert.ok(isUnavailable(first.error), String(first.error));
  assert.ok(first.ms < 1_500, `${first.ms} ms`);
});

for (const [what, call] of [
  ['a call', (client: RedisClient) => client.incr('n')],
  ['a pipeline', (client: RedisClient) => client.pipeline().incr('n').get('n').exec().then(firstError)],
  ['a script that tells before it is answered', (client: RedisClient) => grow.callToldFirst(client, { n: 'n' }, {})],
] as const) {
  test(`${what} that was given up is not sent again after a reconnect`, async () => {
    const { redis, path } = await startRedis();
    await preload(redis, [grow]);
    const relay = await relayTo(path);
    const store = await open({ redis_url: `redis://127.0.0.1:${relay.port}` });
    relay.passes = () => false;
    const lost = await timed(() => call(store.client));
    assert.ok(isUnavailable(lost.error));
    relay.passes = () => true;
    relay.cut();
    await until(
      () =>
        store.client.get('n').then(
          (value) => value === '1',
          () => false,
        ),
      5_000,
      'the link to be back',
    );
    assert.equal(await redis.get('n'), '1');
  });
}

test('a redis that loads its data is waited for', async () => {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), 'sluice-load-')));
  undo.push(() => rmSync(dir, { recursive: true }));
  const first = await startRedis({ args: ['--dir', dir] });
  await first.redis.eval('for i = 1, 3000 do redis.call("set", "k" .. i, i) end', 0);
  await first.redis.save();
  await first.stop();
  const path = join(dir, 's');
  const slow = [
    '--port',
    '0',
    '--unixsocket',
    path,
    '--dir',
    dir,
    '--save',
    '',
    '--key-load-delay',
    '300',
    '--loading-process-events-interval-bytes',
    '1024',
  ];
  const server = spawn('redis-server', slow, { stdio: 'ignore' });
  killAtExit(server);
  undo.push(() => endProcess(server, 'SIGKILL'));
  const lines: string[] = [];
  const store = await open({
    redis_url: `unix://${path}`,
    wait_ms: 500,
    log: createLog({ destination: { write: (line) => void lines.push(line) } }),
  });
  assert.equal(await store.client.get('k3000'), '3000');
  assert.ok(lines.some((line) => line.includes('redis is loading its data')));
});

test('a Sentinel address leads to the master, also after a failover', async () => {
  const master = await startTcp([]);
  const replica = await startTcp(['--replicaof', '127.0.0.1', String(master.port)]);
  const conf = join(mkdtempSync(join(tmpdir(), 'sluice-sentinel-')), 'c');
  writeFileSync(
    conf,
    `sentinel monitor main 127.0.0.1 ${master.port} 1\nsentinel down-after-milliseconds main 300\nsentinel failover-timeout main 2000\n`,
  );
  undo.push(() => rmSync(join(conf, '..'), { recursive: true }));
  const sentinel = await startTcp(['--sentinel'], conf);
  await until(
    async () => /num-slaves,1,/.test(String(await sentinel.redis.call('SENTINEL', 'MASTER', 'main'))),
    15_000,
    'the Sentinel to know the replica',
  );

  const store = await open({ redis_url: `redis+sentinel://127.0.0.1:${sentinel.port}/main` });
  assert.equal(store.kind, 'sentinel');
  await store.client.set('k', 'v');
  await store.client.wait(1, 1000);
  const hints = store.subscriber();
  const heard: string[] = [];
  assert.equal(await hints.subscribe('{a}bell', (message) => void heard.push(message)), true);
  await master.kill();
  const works = async (): Promise<boolean> => {
    const done = await timed(() => store.client.set('k', 'w'));
    assert.ok(done.error === null || isUnavailable(done.error), String(done.error));
    return done.error === null;
  };
  await until(works, 15_000, 'the failover');
  assert.equal(await replica.redis.get('k'), 'w');
  await until(async () => (await store.client.spublish('{a}bell', 'x')) === 1, 10_000, 'the subscriber on the new master');
  await until(() => heard.includes('x'), 1_000, 'the hint');
  await assert.rejects(open({ redis_url: `redis://127.0.0.1:${sentinel.port}` }), refused(/This is a Sentinel/));
});

test('a replica is refused', async () => {
  const master = await startTcp([]);
  const replica = await startTcp(['--replicaof', '127.0.0.1', String(master.port)]);
  await assert.rejects(open({ redis_url: `redis://127.0.0.1:${replica.port}`, wait_ms: 150 }), refused(/it is a replica/));
});

test('on a Cluster', async (t) => {
  const cluster = await startCluster({ node_timeout_ms: 1000 });
  const url = cluster.url;

  await t.test('the store opens, and its partitions are settled', async () => {
    const store = await open({ redis_url: url, partitions: 4 });
    assert.equal(store.kind, 'cluster');
    assert.equal(store.partitions, 4);
    assert.equal((await open({ redis_url: url, partitions: 9 })).partitions, 4);
  });

  await t.test('an address of the other kind is refused both ways', async () => {
    await assert.rejects(
      open({ redis_url: `redis://127.0.0.1:${cluster.nodes[0]?.port}` }),
      refused(/use SLUICE_REDIS_URL=redis\+cluster/),
    );
    const single = await startTcp([]);
    await assert.rejects(open({ redis_url: `redis+cluster://127.0.0.1:${single.port}` }), refused(/not part of one: use redis:/));
  });

  await t.test('a master that would evict is refused by name', async () => {
    const [, master] = cluster.nodes;
    await master?.redis.config('SET', 'maxmemory-policy', 'allkeys-lru');
    await assert.rejects(open({ redis_url: url }), refused(new RegExp(`"allkeys-lru" \\(127.0.0.1:${master?.port}\\)`)));
    await master?.redis.config('SET', 'maxmemory-policy', 'noeviction');
  });

  await t.test('a killed master fails calls within the time limit, and its successor takes them', async () => {
    const store = await open({ redis_url: url });
    const key = keys.meta();
    const master = await cluster.masterOf(key);
    await master.kill();
    const works = async (): Promise<boolean> => {
      const done = await timed(() => store.client.hget(key, 'partitions'));
      assert.ok(done.error === null || isUnavailable(done.error), String(done.error));
      assert.ok(done.ms < 2_600, `${done.ms} ms`);
      return done.error === null;
    };
    assert.ok(!(await works()) || (await cluster.masterOf(key)) !== master);
    await until(works, 20_000, 'the failover');
    await master.start();
    await cluster.ready();
  });

  await t.test('a frozen master fails calls within the time limit', async () => {
    const store = await open({ redis_url: url });
    const master = await cluster.masterOf(keys.meta());
    const pid = Number(parseInfo(await master.redis.info()).get('process_id'));
    await store.client.hget(keys.meta(), 'partitions');
    process.kill(pid, 'SIGSTOP');
    undo.push(() => process.kill(pid, 'SIGCONT'));
    const slow = await timed(() => store.client.hget(keys.meta(), 'partitions'));
    assert.ok(isUnavailable(slow.error), String(slow.error));
    assert.ok(slow.ms < 2_600, `${slow.ms} ms`);
    await until(
      () =>
        store.client.hget(keys.meta(), 'partitions').then(
          () => true,
          () => false,
        ),
      20_000,
      'the failover',
    );
    process.kill(pid, 'SIGCONT');
    await cluster.ready();
  });

  await t.test('with slots that nobody serves it is refused', async () => {
    const master = await cluster.masterOf('{a}');
    const slot = Number(await master.redis.cluster('KEYSLOT', '{a}'));
    await forAll(cluster, 'DELSLOTS', slot);
    await assert.rejects(open({ redis_url: url, wait_ms: 300 }), refused(/Cluster/));
  });
});

async function open(options: Partial<StoreOptions>): Promise<Store> {
  const store = await openStore({ redis_url: null, data_dir: '/nonexistent', partitions: 16, log, ...options });
  undo.push(() => store.close());
  return store;
}

function refused(message: RegExp): (error: unknown) => true {
  return (error) => {
    assert.ok(error instanceof StoreRefused, String(error));
    assert.match(error.message, message);
    return true;
  };
}

async function timed(call: () => Promise<unknown>): Promise<{ ms: number; error: unknown }> {
  const start = performance.now();
  const error: unknown = await call().then(
    () => null,
    (reason: unknown) => reason,
  );
  return { ms: performance.now() - start, error };
}

async function info1(store: Store): Promise<string> {
  return String(await store.client.call('INFO'));
}

async function forAll(cluster: TestCluster, command: 'DELSLOTS', slot: number): Promise<void> {
  for (const { redis } of cluster.nodes) await redis.cluster(command, slot).catch(() => {});
}

async function relayTo(path: string): Promise<Relay> {
  const relay = await startRelay(path);
  undo.push(() => relay.close());
  return relay;
}

interface Tcp {
  port: number;
  redis: Redis;
  kill(): Promise<void>;
}

async function startTcp(args: string[], conf?: string): Promise<Tcp> {
  const port = await freePort();
  const dir = mkdtempSync(join(tmpdir(), 'sluice-tcp-'));
  const all = [...(conf === undefined ? [] : [conf]), ...args, '--port', String(port), '--bind', '127.0.0.1', '--dir', dir];
  const plain = args.includes('--sentinel') ? [] : ['--save', '', '--repl-diskless-sync-delay', '0'];
  const server = spawn('redis-server', [...all, ...plain], { stdio: 'ignore' });
  killAtExit(server);
  const redis = new Redis({ host: '127.0.0.1', port, retryStrategy: () => 10, maxRetriesPerRequest: null });
  redis.on('error', () => {});
  undo.push(async () => {
    redis.disconnect();
    await endProcess(server, 'SIGKILL');
    rmSync(dir, { recursive: true });
  });
  await redis.ping();
  return { port, redis, kill: () => endProcess(server, 'SIGKILL') };
}
