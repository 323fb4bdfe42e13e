// A real redis-server on a loopback port, or a Sentinel: what replication needs, which knows no unix sockets.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { Redis } from 'ioredis';
import { freePort } from '../../bench/lib/ports.ts';
import { endProcess, failed, killAtExit, stopOnce, until } from './redis.ts';

const HOST = '127.0.0.1';
const LINKED_MS_MAX = 15_000;

export interface TcpRedis {
  readonly port: number;
  /** A client of this server alone. */
  readonly redis: Redis;
  /** As `kill -9` and a lost machine do. Resolves when the process is gone. */
  kill(): Promise<void>;
  /** Stops it where it stands, until `thaw`. */
  freeze(): void;
  thaw(): void;
}

/** Starts a server with these arguments; ended by itself when the test, or the file, that started it ends. */
export async function startTcpRedis(args: readonly string[] = []): Promise<TcpRedis> {
  return start(['--save', '', '--repl-diskless-sync-delay', '0', ...args]);
}

/** A replica that is linked to its master; through another port, where one is given. */
export async function startReplica(master: TcpRedis, port = master.port): Promise<TcpRedis> {
  const replica = await startTcpRedis(['--replicaof', HOST, String(port)]);
  const linked = async (): Promise<boolean> => /state=online/.test(await master.redis.info('replication'));
  await until(linked, LINKED_MS_MAX, 'the replica to be linked');
  return replica;
}

/** Sentinels that watch `master` under the name `main` and know one another and its replica. */
export async function startSentinels(master: TcpRedis, count: number): Promise<TcpRedis[]> {
  const quorum = Math.floor(count / 2) + 1;
  const lines = [
    `sentinel monitor main ${HOST} ${master.port} ${quorum}`,
    'sentinel down-after-milliseconds main 500',
    'sentinel failover-timeout main 4000',
  ];
  const sentinels = await Promise.all(Array.from({ length: count }, () => start(['--sentinel'], lines)));
  const ready = async (): Promise<boolean> => {
    const views = await Promise.all(sentinels.map(({ redis }) => redis.call('SENTINEL', 'MASTER', 'main')));
    return views.every((view) => new RegExp(`,num-slaves,1,num-other-sentinels,${count - 1},`).test(String(view)));
  };
  await until(ready, LINKED_MS_MAX, 'the Sentinels to know everyone');
  return sentinels;
}

async function start(args: readonly string[], conf: readonly string[] | null = null): Promise<TcpRedis> {
  const port = await freePort();
  const dir = mkdtempSync(join(tmpdir(), 'sluice-tcp-'));
  const file = join(dir, 'conf');
  // A Sentinel writes what it learns into its file.
  if (conf !== null) writeFileSync(file, `${conf.join('\n')}\n`);
  const place = ['--port', String(port), '--bind', HOST, '--dir', dir];
  const server = spawn('redis-server', [...(conf === null ? [] : [file]), ...place, ...args], { stdio: 'ignore' });
  killAtExit(server);
  const redis = new Redis({ host: HOST, port, retryStrategy: () => 10, maxRetriesPerRequest: null });
  redis.on('error', () => {}); // The first connects race the server's start.
  const kill = (): Promise<void> => endProcess(server, 'SIGKILL');
  const stop = stopOnce(async () => {
    redis.disconnect();
    await kill();
    rmSync(dir, { recursive: true, force: true });
  });
  after(stop);
  try {
    await Promise.race([redis.ping(), failed(server)]);
  } catch (error) {
    await stop();
    throw error;
  }
  return { port, redis, kill, freeze: () => void server.kill('SIGSTOP'), thaw: () => void server.kill('SIGCONT') };
}
