import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { createLog } from '../../src/base/log.ts';
import { isAlive, processStart } from '../../src/store/datadir.ts';
import { type Embedded, embeddedSocket, startEmbedded } from '../../src/store/embedded.ts';
import { StoreRefused } from '../../src/store/errors.ts';
import { findBinary, readText } from '../../src/store/redis-server.ts';
import { endProcess, until } from '../helpers/redis.ts';

const KEEPER = fileURLToPath(new URL('../helpers/keeper.ts', import.meta.url));
const log = createLog({ level: 'silent' });

/** What a test has opened; undone in reverse order. */
const undo: (() => unknown)[] = [];
afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each();
});

test('an embedded redis is private, append-only, and ends with its owner', async () => {
  const dir = dataDir();
  const embedded = await start(dir);
  const redis = client(embedded.socket);
  assert.deepEqual(await redis.config('GET', 'appendonly'), ['appendonly', 'yes']);
  assert.deepEqual(await redis.config('GET', 'maxmemory-policy'), ['maxmemory-policy', 'noeviction']);
  assert.deepEqual(await redis.config('GET', 'port'), ['port', '0']);
  assert.equal(statSync(embedded.socket).mode & 0o777, 0o700);
  assert.equal(statSync(join(dir, 'redis.log')).mode & 0o777, 0o600);
  assert.equal(statSync(join(dir, 'appendonlydir')).mode & 0o777, 0o700);
  const pid = await pidOf(redis);
  redis.disconnect();
  await embedded.stop();
  await embedded.stop();
  assert.ok(isGone(pid));
  assert.equal(await embeddedSocket(dir), null);
});

test('data outlives a stop and a start', async () => {
  const dir = dataDir();
  const first = await start(dir);
  const redis = client(first.socket);
  await redis.set('kept', 'yes');
  redis.disconnect();
  await first.stop();
  const second = await start(dir);
  assert.equal(await client(second.socket).get('kept'), 'yes');
});

test('a redis left over by a killed process is adopted with its data, and ended by its new owner', async () => {
  const dir = dataDir();
  const { child, socket } = await keeper(dir);
  const redis = client(socket);
  const pid = await pidOf(redis);
  await redis.set('kept', 'yes');
  await endProcess(child, 'SIGKILL');
  assert.equal(await embeddedSocket(dir), socket);

  const embedded = await start(dir);
  assert.equal(await pidOf(client(embedded.socket)), pid);
  assert.equal(await client(embedded.socket).get('kept'), 'yes');
  await embedded.stop();
  assert.ok(isGone(pid));
});

test('owner and redis killed together: the next start has the data', async () => {
  const dir = dataDir();
  const { child, socket } = await keeper(dir);
  const redis = client(socket);
  const pid = await pidOf(redis);
  await redis.set('kept', 'yes');
  await endProcess(child, 'SIGKILL');
  process.kill(pid, 'SIGKILL');
  await until(async () => isGone(pid), 5_000, 'redis to be gone');
  const embedded = await start(dir);
  assert.equal(await client(embedded.socket).get('kept'), 'yes');
});

test('of many starts at once one owns the redis, and all use the same one', async () => {
  const dir = dataDir();
  const all = await Promise.all(Array.from({ length: 6 }, () => keeper(dir)));
  const pids = await Promise.all(all.map(({ socket }) => pidOf(client(socket))));
  assert.equal(new Set(pids).size, 1);
  assert.equal(serversIn(dir).length, 1);
  assert.equal(readdirSync(dir).filter((name) => name.startsWith('owner.')).length, 1);
});

test('many starts at once over a killed owner and redis still make one redis', async () => {
  const dir = dataDir();
  const first = await keeper(dir);
  const pid = await pidOf(client(first.socket));
  await endProcess(first.child, 'SIGKILL');
  process.kill(pid, 'SIGKILL');
  await until(async () => isGone(pid), 5_000, 'redis to be gone');
  const all = await Promise.all(Array.from({ length: 6 }, () => keeper(dir)));
  assert.equal(new Set(await Promise.all(all.map(({ socket }) => pidOf(client(socket))))).size, 1);
  assert.equal(serversIn(dir).length, 1);
});

test('a guest leaves the redis alone when it stops, and becomes the owner when the owner is killed', async () => {
  const dir = dataDir();
  const owner = await keeper(dir);
  const guest = await keeper(dir);
  const passing = await keeper(dir);
  const pid = await pidOf(client(owner.socket));
  await endProcess(passing.child, 'SIGTERM');
  assert.ok(isAlive(pid));
  await endProcess(owner.child, 'SIGKILL');
  // The next owner takes the file of the one before away first.
  const owned = (): boolean => readText(ownerFile(dir))?.includes(`"pid":${guest.child.pid}`) ?? false;
  await until(owned, 10_000, 'the guest to own it');
  await endProcess(guest.child, 'SIGTERM');
  assert.ok(isGone(pid));
});

test('a redis that ends by itself is started again with its data', async () => {
  const dir = dataDir();
  const embedded = await start(dir);
  const redis = client(embedded.socket);
  await redis.set('kept', 'yes');
  const pid = await pidOf(redis);
  await listenedTo(redis);
  process.kill(pid, 'SIGKILL');
  await until(async () => serversIn(dir).some((each) => each !== pid) && (await embeddedSocket(dir)) !== null, 10_000, 'a new redis');
  const again = client(embedded.socket);
  assert.equal(await again.get('kept'), 'yes');
  assert.notEqual(await pidOf(again), pid);
  await listenedTo(again);
});

test('a redis that hangs up goes on, and is listened to again', async () => {
  const dir = dataDir();
  const redis = client((await start(dir)).socket);
  const pid = await pidOf(redis);
  const line = await listenedTo(redis);
  await redis.client('KILL', 'ID', line);
  assert.notEqual(await listenedTo(redis), line);
  assert.deepEqual([await pidOf(redis), serversIn(dir)], [pid, [pid]]);
});

test('a redis that runs but lost its socket is ended before another starts', async () => {
  const dir = dataDir();
  const { child, socket } = await keeper(dir);
  const redis = client(socket);
  const pid = await pidOf(redis);
  await redis.set('kept', 'yes');
  await endProcess(child, 'SIGKILL');
  rmSync(socket);
  const embedded = await start(dir);
  assert.ok(isGone(pid));
  assert.equal(await client(embedded.socket).get('kept'), 'yes');
});

test('a path too long for a socket gets one elsewhere, found again by the command line and by the next owner', async () => {
  const dir = join(dataDir(), 'x'.repeat(120));
  mkdirSync(dir);
  const { child, socket } = await keeper(dir);
  assert.ok(Buffer.byteLength(socket) < 100);
  assert.equal(statSync(join(socket, '..')).mode & 0o777, 0o700);
  assert.equal(await embeddedSocket(dir), socket);
  await endProcess(child, 'SIGKILL');
  const embedded = await start(dir);
  assert.equal(embedded.socket, socket);
  await embedded.stop();
  rmSync(join(socket, '..'), { recursive: true });
});

test('a copied data directory does not use the redis of the original', async () => {
  const dir = dataDir();
  const copy = dataDir();
  const embedded = await start(dir);
  writeFileSync(join(copy, 'redis.pid'), readFileSync(join(dir, 'redis.pid')));
  writeFileSync(
    join(copy, 'owner.1'),
    readFileSync(join(dir, 'owner.1'))
      .toString()
      .replace(/"started":"\d+"/, '"started":"1"'),
  );
  const other = await start(copy);
  assert.notEqual(await pidOf(client(other.socket)), await pidOf(client(embedded.socket)));
});

test('a machine that has Valkey only runs that', async () => {
  const dir = dataDir();
  const path = process.env['PATH'];
  undo.push(() => {
    process.env['PATH'] = path;
  });
  symlinkSync(findBinary(['redis-server']), join(dir, 'valkey-server'));
  process.env['PATH'] = dir;
  assert.equal(await client((await start(dataDir())).socket).ping(), 'PONG');
});

test('a machine without redis-server is told how to install it', async () => {
  await assert.rejects(startEmbedded({ data_dir: dataDir(), log, binary: 'no-such-redis-server' }), (error: unknown) => {
    assert.ok(error instanceof StoreRefused);
    assert.match(error.message, /make setup.*SLUICE_REDIS_URL/);
    return true;
  });
});

test('a redis that cannot start says why', async () => {
  const dir = dataDir();
  mkdirSync(join(dir, 'appendonlydir'));
  writeFileSync(join(dir, 'appendonlydir', 'appendonly.aof.manifest'), 'not a manifest\n');
  await assert.rejects(startEmbedded({ data_dir: dir, log }), (error: unknown) => {
    assert.ok(error instanceof StoreRefused);
    assert.match(error.message, /does not start: it ended with code 1[\s\S]*manifest/);
    return true;
  });
});

function dataDir(): string {
  const dir = realpathSync(mkdtempSync(join(tmpdir(), 'sluice-data-')));
  undo.push(() => {
    for (const pid of serversIn(dir)) process.kill(pid, 'SIGKILL');
    rmSync(dir, { recursive: true, force: true });
  });
  return dir;
}

async function start(data_dir: string): Promise<Embedded> {
  const embedded = await startEmbedded({ data_dir, log });
  undo.push(() => embedded.stop());
  return embedded;
}

async function keeper(dir: string): Promise<{ child: ChildProcess; socket: string }> {
  const child = spawn(process.execPath, ['--import', 'tsx', KEEPER, dir], { stdio: ['ignore', 'pipe', 'inherit'] });
  undo.push(() => endProcess(child, 'SIGKILL'));
  for await (const line of createInterface({ input: child.stdout })) {
    const said = JSON.parse(line) as { socket?: string; refused?: string };
    assert.equal(said.refused, undefined);
    return { child, socket: said.socket ?? '' };
  }
  throw new Error('the keeper ended without a word');
}

function client(path: string): Redis {
  const redis = new Redis({ path, maxRetriesPerRequest: 1 });
  redis.on('error', () => {});
  undo.push(() => redis.disconnect());
  return redis;
}

/** Waits for the connection that tells an owner of the server's end, on which nothing is said; its id. */
async function listenedTo(redis: Redis): Promise<string> {
  let id: string | undefined;
  const silent = async (): Promise<boolean> => {
    id = /^id=(\d+) .* cmd=NULL /m.exec(String(await redis.client('LIST')))?.[1];
    return id !== undefined;
  };
  await until(silent, 10_000, 'a connection on which nothing is said');
  return id ?? '';
}

async function pidOf(redis: Redis): Promise<number> {
  return Number(/process_id:(\d+)/.exec(await redis.info('server'))?.[1]);
}

function isGone(pid: number): boolean {
  return processStart(pid) === null || processStart(pid) === 'ended';
}

function ownerFile(dir: string): string {
  return join(dir, readdirSync(dir).find((name) => name.startsWith('owner.')) ?? 'owner.0');
}

/** Ids of the redis-server processes whose command line names this directory. */
function serversIn(dir: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/comm`, 'utf8').startsWith('redis-server') && realpathSync(`/proc/${pid}/cwd`).startsWith(dir);
      } catch {
        return false;
      }
    });
}
