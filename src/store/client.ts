// How Sluice talks to Redis: clients whose calls end within two seconds, whatever the server or the network does.
//
//   command_timeout   2 s, from the first send to the answer, over all re-sends and redirections
//   link down         calls wait for it, for up to 1 s; from then on they fail at once, until it is back
//   link cut          calls in flight are sent once more if the next connect succeeds, else they fail
//   link silent       a socket that owes answers and says nothing for 4 s is closed and replaced
//   slot on the move  calls fail at once, with nothing done; ASK is not followed (docs/decisions/0011-ask-is-not-followed.md)
//
// So a call that failed may have run, also a little later: on Cluster ioredis may still send what was given up, from its own queues. Scripts are
// written to be harmless twice. Where a call surely did nothing its error says so, by `changedNothing` of errors.ts: a refusal does, where no
// earlier try ended with its connection (also one that was never written: ioredis ends both alike).
import type { RedisOptions as AnyRedisOptions, ChainableCommander, ClusterOptions } from 'ioredis';
import { Cluster, Redis } from 'ioredis';
import { monotonicMs } from '../base/clock.ts';
import { type Log, limitedLog } from '../base/log.ts';
import { type ConnectionSpec, describe, type Host } from './address.ts';
import { afterCut, StoreRefused } from './errors.ts';
import { GIVEN_UP_MS, pipelinesOf, type Timed, type Tries } from './pipeline.ts';
import type { RedisClient } from './script.ts';

/** ioredis types its replies by `replyMapping`; its default is what the typed callers of scripts expect. */
type RedisOptions = Omit<AnyRedisOptions, 'replyMapping'>;

/** The API answers 503 after this, so it is below what a caller's own timeout is likely to be. */
const COMMAND_TIMEOUT_MS = 2_000;
const CONNECT_TIMEOUT_MS = 2_000;
/** Above COMMAND_TIMEOUT_MS: a stall of the disk (2 s with appendfsync everysec) must not cost the connection. */
const SILENCE_MS = 4_000;
const OFFLINE_QUEUE_MS = 1_000;
const RETRY_MIN_MS = 25;
const RETRY_MAX_MS = 1_000;
const KEEP_ALIVE_MS = 5_000;
const LOADING_POLL_MS = 500;
const READY_WAIT_MS = 10_000;
const SLOTS_REFRESH_TIMEOUT_MS = 1_000;
/**
 * Who asks the wrong node is told so, and reads the table of slots at once; this is the second net. Each reading is a connection of its
 * own and 1.5 ms of CPU, for each client of each process.
 */
const SLOTS_REFRESH_INTERVAL_MS = 15_000;

export interface ClientOptions {
  /** What this connection is for; part of its name in CLIENT LIST. */
  role: string;
  log: Log;
}

/** Opens a connection of its own and waits until it can be used. Throws StoreRefused where that takes over `wait_ms`. */
export async function openConnection(spec: ConnectionSpec, options: ClientOptions, wait_ms = READY_WAIT_MS): Promise<RedisClient> {
  const client = createClient(spec, options);
  try {
    await untilReady(client, wait_ms);
  } catch (error) {
    client.disconnect();
    throw new StoreRefused(`Cannot use ${describe(spec)}: ${reason(error)}`, { cause: error });
  }
  return client;
}

/** A client that connects by itself and for ever again. */
export function createClient(spec: ConnectionSpec, options: ClientOptions, overrides: RedisOptions = {}): RedisClient {
  const client =
    spec.kind === 'cluster'
      ? new BoundedCluster(spec.nodes, clusterOptions(spec, options.role))
      : new BoundedRedis({ ...redisOptions(spec, options.role), ...overrides });
  const log = limitedLog(options.log);
  client.on('error', (error: Error) => log.warn({ err: error, role: options.role }, 'redis connection failed'));
  client.on('node error', (error: Error, node: string) =>
    log.warn({ err: error, role: options.role, node }, 'redis connection to a node failed'),
  );
  failFastWhenDown(client);
  return client;
}

/** A connection to one server that tries once, is not waited for and answers also while it is loading: for checks and probes. */
export function createProbe(spec: ConnectionSpec, host: Host | null = null): Redis {
  const once: RedisOptions = { lazyConnect: true, retryStrategy: null, enableReadyCheck: false, maxRetriesPerRequest: 0 };
  const options = spec.kind === 'cluster' ? { ...nodeOptions(spec, 'probe'), ...(host ?? spec.nodes[0]) } : redisOptions(spec, 'probe');
  const sentinel: RedisOptions = spec.kind === 'sentinel' ? { sentinelRetryStrategy: () => null } : {};
  const probe = new Redis({ ...options, ...sentinel, ...once });
  probe.on('error', () => {}); // The command that finds the link dead says so.
  return probe;
}

/** A connection to one node of a Cluster, `host:port`, that connects by itself and for ever again. */
export function createNode(spec: ConnectionSpec, node: string, role: string, overrides: RedisOptions = {}): Redis {
  const colon = node.lastIndexOf(':');
  return new Redis({
    ...nodeOptions(spec, role),
    ...overrides,
    host: node.slice(0, colon),
    port: Number(node.slice(colon + 1)),
    retryStrategy: retryWait_ms,
  });
}

function retryWait_ms(times: number): number {
  return Math.min(RETRY_MAX_MS, RETRY_MIN_MS * 2 ** Math.min(times, 10));
}

/** Options for one node of a Cluster, and the part that all kinds share. */
function nodeOptions(spec: ConnectionSpec, role: string): RedisOptions {
  return {
    connectionName: `sluice-${role}`,
    clientInfoTag: 'sluice',
    commandTimeout: COMMAND_TIMEOUT_MS,
    connectTimeout: CONNECT_TIMEOUT_MS,
    socketTimeout: SILENCE_MS,
    maxLoadingRetryTime: LOADING_POLL_MS,
    keepAlive: KEEP_ALIVE_MS,
    noDelay: true,
    ...(spec.username === null ? {} : { username: spec.username }),
    ...(spec.password === null ? {} : { password: spec.password }),
    ...(spec.tls ? { tls: {} } : {}),
  };
}

function redisOptions(spec: Exclude<ConnectionSpec, { kind: 'cluster' }>, role: string): RedisOptions {
  const shared: RedisOptions = {
    ...nodeOptions(spec, role),
    db: spec.db,
    maxRetriesPerRequest: 1,
    retryStrategy: retryWait_ms,
    // The master was demoted under this connection: another one leads to its successor.
    reconnectOnError: (error) => error.message.startsWith('READONLY'),
  };
  if (spec.kind === 'sentinel') {
    return {
      ...shared,
      sentinels: spec.sentinels,
      name: spec.master,
      sentinelRetryStrategy: retryWait_ms,
      sentinelCommandTimeout: COMMAND_TIMEOUT_MS,
      ...(spec.sentinel_username === null ? {} : { sentinelUsername: spec.sentinel_username }),
      ...(spec.sentinel_password === null ? {} : { sentinelPassword: spec.sentinel_password }),
      ...(spec.tls ? { enableTLSForSentinelMode: true, sentinelTLS: {} } : {}),
    };
  }
  return { ...shared, ...(spec.path === null ? { host: spec.host, port: spec.port } : { path: spec.path }) };
}

function clusterOptions(
  spec: Extract<ConnectionSpec, { kind: 'cluster' }>,
  role: string,
): Omit<ClusterOptions, 'redisOptions'> & { redisOptions: RedisOptions } {
  return {
    redisOptions: nodeOptions(spec, role),
    scaleReads: 'master',
    clusterRetryStrategy: (times) => Math.min(RETRY_MAX_MS, 100 * times),
    slotsRefreshTimeout: SLOTS_REFRESH_TIMEOUT_MS,
    slotsRefreshInterval: SLOTS_REFRESH_INTERVAL_MS,
    // At most 16 of these delays a call, and never beyond the command timeout.
    maxRedirections: 16,
    retryDelayOnMoved: 20,
    retryDelayOnFailover: 100,
    retryDelayOnClusterDown: 100,
    // Host names are kept as they are, so that TLS can check them; the socket resolves them at each connect.
    dnsLookup: (host, done) => done(null, host),
  };
}

class BoundedRedis extends Redis {
  readonly #pipeline = pipelinesOf(this, super.pipeline());

  override pipeline(commands?: unknown[][]): ChainableCommander {
    return this.#pipeline(commands);
  }

  /** After a reconnect ioredis sends again what was in flight, also calls that timed out and were given up. Those end here. */
  override sendCommand(...[command, stream]: Parameters<Redis['sendCommand']>): unknown {
    if (!command.isSettled) {
      // It marks with this what it has written.
      if (command.isTraced) onReject(command, afterCut);
      return super.sendCommand(command, stream);
    }
    // A pipeline writes what it has when as many have come as it has commands.
    if (stream !== undefined && 'isPipeline' in stream) stream.write('');
    return command.promise;
  }
}

/** What ends a command, such as one that ioredis sends. */
interface Rejects {
  reject(error: Error): void;
}

/** Has the command end with what `turn` makes of its error. */
function onReject(command: Rejects, turn: (error: Error) => Error): void {
  const { reject } = command;
  command.reject = (error) => reject(turn(error));
}

/** What ioredis does about error replies, with its ways to go on. */
type OnError = Parameters<Cluster['handleError']>;

class BoundedCluster extends Cluster {
  readonly #pipeline = pipelinesOf(this, super.pipeline());

  override pipeline(commands?: unknown[][]): ChainableCommander {
    return this.#pipeline(commands);
  }

  /** ioredis starts the clock when a node gets the command, for a pipeline at each try; while no node is known it would wait without end. */
  override sendCommand(...[command, stream, node]: Parameters<Cluster['sendCommand']>): unknown {
    if (node === undefined) {
      // It was given up while it waited for a node.
      if (command.isSettled) return command.promise;
      command.setTimeout(COMMAND_TIMEOUT_MS);
      return super.sendCommand(command, stream);
    }
    // A pipeline, which alone names a node, puts ASKING between its commands before it asks `handleError`; so it sees no ASK.
    onReject(command, (error) => moving(error) ?? error);
    const now_ms = monotonicMs();
    const timed = command as Timed;
    timed[GIVEN_UP_MS] ??= now_ms + COMMAND_TIMEOUT_MS;
    command.setTimeout(Math.max(1, timed[GIVEN_UP_MS] - now_ms));
    return super.sendCommand(command, stream, node);
  }

  /**
   * ASK leads to the node that receives the slot, where a key that has not come yet looks like one that does not exist:
   * work would be reported as missing or made twice. What moves is not waited for either: new work can go elsewhere.
   */
  override handleError(...[error, ttl, go]: OnError): void {
    const tries: Tries = ttl;
    if (error.message.startsWith('Connection is closed')) tries.cut = true;
    // Of the ways to go on, the one that ends the call with the error it is given.
    const end = (last: Error): void => go.maxRedirections(tries.cut ? afterCut(last) : last);
    const given_up = moving(error);
    if (given_up !== null) return end(given_up);
    const slot = Number(/^MOVED (\d+) /.exec(error.message)?.[1]);
    const nodes = this.slots[slot];
    // ioredis has one list of nodes for a whole range of slots and writes the new owner of one slot into it.
    if (nodes !== undefined) this.slots[slot] = [...nodes];
    super.handleError(error, ttl, { ...go, defaults: () => end(error) });
  }
}

/** ASK as the TRYAGAIN that it is here, TRYAGAIN itself, or null for any other error. */
function moving(error: Error): Error | null {
  if (error.message.startsWith('TRYAGAIN')) return error;
  const ask = /^ASK (\d+) (.*)/s.exec(error.message);
  return ask === null ? null : new Error(`TRYAGAIN slot ${ask[1]} is on its way to ${ask[2]}; nothing was done`);
}

/** ioredis reads `enableOfflineQueue` at each call, so it can be switched: a short outage is waited out, a long one is not. */
function failFastWhenDown(client: RedisClient): void {
  let timer: NodeJS.Timeout | null = null;
  const down = (): void => {
    timer ??= setTimeout(() => {
      client.options.enableOfflineQueue = false;
    }, OFFLINE_QUEUE_MS).unref();
  };
  client.on('close', down);
  client.on('ready', () => {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    client.options.enableOfflineQueue = true;
  });
  down();
}

/** Rejects after `wait_ms`, with the last reason why not. */
export function untilReady(client: RedisClient, wait_ms: number): Promise<void> {
  if (client.status === 'ready') return Promise.resolve();
  return new Promise((resolve, reject) => {
    let last: Error | null = null;
    const settle = (act: () => void): void => {
      clearTimeout(timer);
      client.off('ready', onReady);
      client.off('end', onEnd);
      client.off('error', onError);
      act();
    };
    const onReady = (): void => settle(resolve);
    const onEnd = (): void => settle(() => reject(last ?? new Error('Connection is closed')));
    const onError = (error: Error): void => {
      last = error;
    };
    const timer = setTimeout(() => settle(() => reject(last ?? new Error('no answer'))), wait_ms);
    client.on('ready', onReady);
    client.on('end', onEnd);
    client.on('error', onError);
  });
}

/** One line about `error`, for a message. */
export function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const inner = 'lastNodeError' in error && error.lastNodeError instanceof Error ? ` (${error.lastNodeError.message})` : '';
  return error.message + inner;
}
