// A real Redis Cluster on loopback ports: three masters, a replica for each, and handles to kill and start every node.
import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { Cluster, Redis } from 'ioredis';
import { freePorts } from '../../bench/lib/ports.ts';
import { endProcess, failed, killAtExit, stopOnce, until } from './redis.ts';

const HOST = '127.0.0.1';
const SLOTS = 16_384;
const MASTERS = 3;
const NODES = 2 * MASTERS;
const READY_MS_MAX = 30_000;

type ClusterSettings = NonNullable<ConstructorParameters<typeof Cluster>[1]>;

export interface TestNode {
  readonly port: number;
  /** The node's name in CLUSTER NODES. */
  readonly id: string;
  /** A client of this node alone; it reconnects by itself. */
  readonly redis: Redis;
  readonly living: boolean;
  /** As `kill -9` and a lost machine do. Resolves when the process is gone. */
  kill(): Promise<void>;
  /** Stops it where it stands, until `thaw`. */
  freeze(): void;
  thaw(): void;
  /** Starts a killed node again, with its port and its place in the cluster; resolves when it answers. */
  start(): Promise<void>;
}

export interface TestCluster {
  /** Masters 0 to 2, then the replica of each. */
  readonly nodes: readonly TestNode[];
  /** As a server is told where the cluster is. */
  readonly url: string;
  /** A new client of the cluster; closed by `stop`. */
  connect(options?: ClusterSettings): Cluster;
  /** The node that serves this key now, as a living node sees it. */
  masterOf(key: string): Promise<TestNode>;
  /** Resolves when every living node says that all slots are served, and each that is a replica is linked to its master. */
  ready(): Promise<void>;
  /** Ends all; called by itself when the test file ends. */
  stop(): Promise<void>;
}

/**
 * Starts the cluster in a little over 2 s: a fresh master waits that long before it serves, whatever is done.
 * `args` are appended to each server's command line.
 */
export async function startCluster(options: { node_timeout_ms?: number; args?: readonly string[] } = {}): Promise<TestCluster> {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-cluster-'));
  const args = ['--cluster-node-timeout', String(options.node_timeout_ms ?? 2000), ...(options.args ?? [])];
  const clients: Cluster[] = [];
  const nodes: TestNode[] = [];
  const stop = stopOnce(async () => {
    for (const client of clients) client.disconnect();
    for (const node of nodes) node.redis.disconnect();
    await Promise.all(nodes.map((node) => node.kill()));
    rmSync(dir, { recursive: true, force: true });
  });
  after(stop);
  const ready = (): Promise<void> => until(() => isReady(nodes), READY_MS_MAX, 'the cluster to be ready');
  try {
    const ports = await freePorts(2 * NODES);
    for (let i = 0; i < NODES; i++) nodes.push(makeNode(join(dir, String(i)), ports[i] ?? 0, ports[i + NODES] ?? 0, args));
    await Promise.all(nodes.map((node) => node.start()));
    await form(nodes, ports.slice(NODES));
    await ready();
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    nodes,
    url: `redis+cluster://${nodes.map(({ port }) => `${HOST}:${port}`).join(',')}`,
    ready,
    stop,
    connect(clusterOptions = {}) {
      const seeds = nodes.map(({ port }) => ({ host: HOST, port }));
      const client = new Cluster(seeds, clusterOptions);
      client.on('error', () => {}); // A test that kills nodes expects them.
      clients.push(client);
      return client;
    },
    masterOf: (key) => masterOf(nodes, key),
  };
}

/** A node that is not started yet. */
function makeNode(dir: string, port: number, bus_port: number, args: readonly string[]): TestNode {
  mkdirSync(dir);
  const place = ['--port', String(port), '--cluster-port', String(bus_port), '--bind', HOST, '--dir', dir];
  const cluster = ['--cluster-enabled', 'yes', '--cluster-allow-replica-migration', 'no', '--repl-diskless-sync-delay', '0'];
  const commandLine = [...place, ...cluster, '--save', '', '--appendonly', 'no', ...args];
  const redis = new Redis({ host: HOST, port, lazyConnect: true, retryStrategy: () => 5, maxRetriesPerRequest: null });
  redis.on('error', () => {}); // The first connects race the server's start.
  let server: ReturnType<typeof spawn> | null = null;
  const node = {
    port,
    redis,
    id: '',
    living: false,
    async kill() {
      node.living = false;
      if (server !== null) await endProcess(server, 'SIGKILL');
    },
    freeze: () => void server?.kill('SIGSTOP'),
    thaw: () => void server?.kill('SIGCONT'),
    async start() {
      await node.kill();
      server = spawn('redis-server', commandLine, { stdio: 'ignore' });
      killAtExit(server);
      node.id = (await Promise.race([redis.cluster('MYID'), failed(server)])) as string;
      node.living = true;
    },
  };
  return node;
}

/** What `redis-cli --cluster create` does, with everyone introduced to everyone so that no gossip is waited for. */
async function form(nodes: readonly TestNode[], bus_ports: readonly number[]): Promise<void> {
  await Promise.all(nodes.map(({ redis }, i) => redis.call('CLUSTER', 'SET-CONFIG-EPOCH', i + 1)));
  const shares = nodes.slice(0, MASTERS).map(({ redis }, i) => {
    const [from, to] = [Math.floor((i * SLOTS) / MASTERS), Math.floor(((i + 1) * SLOTS) / MASTERS) - 1];
    return redis.call('CLUSTER', 'ADDSLOTSRANGE', from, to);
  });
  await Promise.all(shares);
  const meetings = nodes.flatMap(({ redis }, i) =>
    nodes.flatMap(({ port }, j) => (j > i ? [redis.call('CLUSTER', 'MEET', HOST, port, bus_ports[j] ?? 0)] : [])),
  );
  await Promise.all(meetings);
  const replicas = nodes.slice(MASTERS).map(async ({ redis }, i) => {
    const master = nodes[i]?.id ?? '';
    const met = async (): Promise<boolean> => String(await redis.cluster('NODES')).includes(master);
    await until(met, READY_MS_MAX, 'the nodes to meet');
    await redis.cluster('REPLICATE', master);
  });
  await Promise.all(replicas);
}

async function isReady(nodes: readonly TestNode[]): Promise<boolean> {
  const living = nodes.filter((node) => node.living);
  const answers = await Promise.all(living.map(({ redis }) => isNodeReady(redis, living)));
  return answers.every((answer) => answer);
}

async function isNodeReady(redis: Redis, living: readonly TestNode[]): Promise<boolean> {
  const [info, view, replication] = await Promise.all([redis.cluster('INFO'), redis.cluster('NODES'), redis.info('replication')]);
  if (!/cluster_state:ok/.test(String(info)) || !/cluster_slots_ok:16384/.test(String(info))) return false;
  if (/role:slave/.test(replication) && !/master_link_status:up/.test(replication)) return false;
  const rows = String(view)
    .trim()
    .split('\n')
    .map((row) => row.split(' '));
  // Each living node is known here, not suspected, and counted as what it is: else a failover has no voters or no candidates.
  const alive = rows.filter(([id, , flags]) => living.some((node) => node.id === id) && !/fail|handshake/.test(flags ?? ''));
  const masters = rows.filter(([, , flags = '', , , , , , slots]) => /master/.test(flags) && !/fail/.test(flags) && slots !== undefined);
  return alive.length === living.length && masters.length === MASTERS;
}

async function masterOf(nodes: readonly TestNode[], key: string): Promise<TestNode> {
  const witness = nodes.find((node) => node.living);
  if (witness === undefined) throw new Error('no node lives');
  const slot = Number(await witness.redis.cluster('KEYSLOT', key));
  const ranges = await witness.redis.cluster('SLOTS');
  const port = ranges.find(([from, to]) => from <= slot && slot <= to)?.[2]?.[1];
  const node = nodes.find((one) => one.port === port);
  if (node === undefined) throw new Error(`nobody serves slot ${slot}`);
  return node;
}
