// Servers that share a Redis of their own, or a Cluster of three masters; with an append-only file, as they are run.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { pause } from './bench.ts';
import { freePort, freePorts } from './ports.ts';
import { answered, cpuSeconds, endProcess, killAtExit } from './process.ts';
import { spawnServer, untilReady } from './server.ts';

const TOKENS = { a: 'the-token-of-account-a', b: 'the-token-of-account-b' };
const SLOTS = 16_384;
const LOOK_AGAIN_MS = 20;

export interface FleetOptions {
  entry: string;
  processes: number;
  /** Of a Redis Cluster; 1 = no Cluster. */
  masters: 1 | 3;
  /** Whether the one master has a replica. */
  replica?: boolean;
  env?: Record<string, string>;
}

export class Fleet {
  /** Accounts `a` and `b`, at the first server. */
  readonly a: { url: string; token: string };
  readonly b: { url: string; token: string };
  /** Account `a` at every server. */
  readonly everywhere: readonly { url: string; token: string }[];
  readonly #servers: ChildProcess[];
  /** The masters, and the replica behind them. */
  readonly #redis: ChildProcess[];
  readonly #dir: string;
  readonly #forget: () => void;

  private constructor(urls: readonly string[], servers: ChildProcess[], redis: ChildProcess[], dir: string, forget: () => void) {
    this.everywhere = urls.map((url) => ({ url, token: TOKENS.a }));
    this.a = { url: urls[0] ?? '', token: TOKENS.a };
    this.b = { url: urls[0] ?? '', token: TOKENS.b };
    [this.#servers, this.#redis, this.#dir, this.#forget] = [servers, redis, dir, forget];
  }

  static async start({ entry, processes, masters, replica = false, env = {} }: FleetOptions): Promise<Fleet> {
    const dir = mkdtempSync(join(tmpdir(), 'sluice-bench-fleet-'));
    const servers: ChildProcess[] = [];
    const redis: ChildProcess[] = [];
    const forget = killAtExit(() => {
      for (const child of [...servers, ...redis]) child.kill('SIGKILL');
      rmSync(dir, { recursive: true, force: true });
    });
    const ports = await freePorts(2 * masters + processes);
    const nodes = Array.from({ length: masters }, (_, i) => makeNode(dir, ports[i] ?? 0, masters > 1 ? ports[i + masters] : undefined));
    redis.push(...nodes.map(({ child }) => child));
    await formCluster(nodes);
    if (replica) redis.push(await startReplica(dir, ports[0] ?? 0));
    const hosts = nodes.map(({ port }) => `127.0.0.1:${port}`).join(',');
    const urls: string[] = [];
    for (let i = 0; i < processes; i++) {
      const port = ports[2 * masters + i] ?? 0;
      const data_dir = join(dir, `server-${i}`);
      mkdirSync(data_dir);
      servers.push(
        spawnServer(entry, [], {
          SLUICE_PORT: String(port),
          SLUICE_DATA_DIR: data_dir,
          SLUICE_REDIS_URL: masters > 1 ? `redis+cluster://${hosts}` : `redis://${hosts}`,
          SLUICE_ACCESS_TOKENS: Object.entries(TOKENS)
            .map((pair) => pair.join('='))
            .join(','),
          ...env,
        }),
      );
      urls.push(`http://127.0.0.1:${port}`);
    }
    await Promise.all(urls.map((url, i) => untilReady(url, servers[i] as ChildProcess)));
    return new Fleet(urls, servers, redis, dir, forget);
  }

  /** Of all servers and all of Redis. */
  cpu_s(): number {
    const { engine, redis } = this.cpu();
    return engine + redis;
  }

  cpu(): { engine: number; redis: number } {
    const sum = (children: readonly ChildProcess[]): number => children.reduce((total, { pid }) => total + cpuSeconds(pid ?? 0), 0);
    return { engine: sum(this.#servers), redis: sum(this.#redis) };
  }

  /** Ends the last server at once. */
  killLast(): void {
    this.#servers.pop()?.kill('SIGKILL');
  }

  async stop(): Promise<void> {
    await Promise.all(this.#servers.map(endProcess));
    await Promise.all(this.#redis.map(endProcess));
    rmSync(this.#dir, { recursive: true, force: true });
    this.#forget();
  }
}

interface Node {
  port: number;
  /** Of a Cluster's node: where the others speak to it. */
  bus_port: number | undefined;
  child: ChildProcess;
}

function makeNode(dir: string, port: number, bus_port?: number, more: readonly string[] = []): Node {
  const own = join(dir, `redis-${port}`);
  mkdirSync(own);
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--dir', own, '--save', '', '--appendonly', 'yes'];
  const cluster = bus_port === undefined ? [] : ['--cluster-enabled', 'yes', '--cluster-port', String(bus_port)];
  return { port, bus_port, child: spawn('redis-server', [...args, ...cluster, ...more], { stdio: 'ignore' }) };
}

function clientOf({ port }: Node): Redis {
  const client = new Redis({ port, retryStrategy: () => 5, maxRetriesPerRequest: null });
  client.on('error', () => {}); // The first connects race the server's start.
  return client;
}

/** Resolves when it has all that the master has. */
async function startReplica(dir: string, master_port: number): Promise<ChildProcess> {
  const node = makeNode(dir, await freePort(), undefined, ['--replicaof', '127.0.0.1', String(master_port)]);
  const client = clientOf(node);
  while (!/^master_link_status:up/m.test(await answered(node.child, client.info('replication')))) await pause(LOOK_AGAIN_MS);
  client.disconnect();
  return node.child;
}

/** Deals all slots to these nodes, in equal shares; of one node it only waits until it answers. */
async function formCluster(nodes: readonly Node[]): Promise<void> {
  const clients = nodes.map(clientOf);
  await Promise.all(clients.map((client, i) => answered((nodes[i] as Node).child, client.ping())));
  if (nodes.length > 1) {
    const share = (i: number): number => Math.floor((i * SLOTS) / nodes.length);
    await Promise.all(clients.map((client, i) => client.call('CLUSTER', 'ADDSLOTSRANGE', share(i), share(i + 1) - 1)));
    for (const { port, bus_port = 0 } of nodes.slice(1)) await clients[0]?.call('CLUSTER', 'MEET', '127.0.0.1', port, bus_port);
    const formed = async (): Promise<boolean> => {
      const told = await Promise.all(clients.map((client) => client.cluster('INFO')));
      return told.every((text) => /cluster_state:ok/.test(text) && new RegExp(`cluster_known_nodes:${nodes.length}`).test(text));
    };
    while (!(await formed())) await pause(LOOK_AGAIN_MS);
  }
  for (const client of clients) client.disconnect();
}
