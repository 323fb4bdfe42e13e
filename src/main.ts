// The wiring: configuration, store, threads, front door. Started in the order in which data flows, stopped in reverse.
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { makeApi, makeQuota } from './api/api.ts';
import { BatchReader } from './api/batch-reader.ts';
import type { ApiContext } from './api/context.ts';
import { PageTurns } from './api/page-turns.ts';
import { Placement } from './api/placement.ts';
import { TrayWriter } from './api/tray-writer.ts';
import { systemClock } from './base/clock.ts';
import { base62 } from './base/id.ts';
import { createLog, type Log } from './base/log.ts';
import { runAll, type Service } from './base/service.ts';
import { callbackService, keepOf } from './callbacks.ts';
import { type Config, ConfigError, loadConfig } from './config.ts';
import { cronService } from './cron.ts';
import { Membership, type ThreadGroup } from './delivery/membership.ts';
import { Relayer } from './delivery/relayer.ts';
import { countFailedCalls } from './failed-calls.ts';
import { accountNames, relayMeterOf, repairMeterOf, watchStore } from './gauges.ts';
import { greeting } from './greeting.ts';
import { Authenticator, isGuessable } from './http/auth.ts';
import { loadPages } from './http/pages.ts';
import { CannotListen, type Ops, type Server, startServer } from './http/serve.ts';
import { type Intake, makeIntake } from './intake.ts';
import { type MemoryState, MemoryWatch } from './memory.ts';
import { LimiterTop } from './metrics/limiters.ts';
import { watchLoop } from './metrics/loop.ts';
import { createMetrics, type Metrics } from './metrics/registry.ts';
import { OpsDoor, Phase, readiness, urlOf } from './ops-door.ts';
import { type EgressPolicy, egressPolicy } from './outbound/addresses.ts';
import { PartitionWatch } from './partition-watch.ts';
import { RequestSpans } from './request-spans.ts';
import { isUnavailable, openStore, patiently, type Store, StoreRefused } from './store/connect.ts';
import { type Durability, openDurability } from './store/durability.ts';
import { preparePartitions } from './store/partition.ts';
import { ensureLocalToken, lookupToken } from './store/tokens.ts';
import { makeStreams, type StreamService } from './streams.ts';
import { CompileBudget } from './threads/compile-budget.ts';
import { QuietCollector } from './threads/quiet-collector.ts';
import { VERSION } from './version.ts';

/** Where the build puts the page, seen from the sources and from the build. */
const DASHBOARD = fileURLToPath(new URL(extname(import.meta.url) === '.ts' ? '../dist/dashboard' : './dashboard', import.meta.url));
const LOCAL_ACCOUNT = 'default';
const RELAY_STOP_MS = 1_000;

/** Runs the server until SIGTERM or SIGINT; a second signal ends it at once. Resolves with the exit code, as cli/command.ts explains it. */
export async function main(env: NodeJS.ProcessEnv = process.env): Promise<number> {
  let config: Config;
  try {
    config = loadConfig(env);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    process.stderr.write(`${error.message}\n`);
    return 2;
  }
  const log = createLog({ level: config.log_level });
  const stopped = untilSignal(log);
  try {
    await serve(config, log, stopped);
    return 0;
  } catch (error) {
    const refused = error instanceof StoreRefused;
    if (refused || error instanceof CannotListen) process.stderr.write(`${error.message}\n`);
    else log.fatal({ err: error }, 'the server cannot go on');
    return refused || isUnavailable(error) ? 3 : 1;
  }
}

async function serve(config: Config, log: Log, stopped: Promise<void>): Promise<void> {
  const { redis_url, data_dir, partitions } = config;
  const store = await openStore({ redis_url, data_dir, partitions, log });
  try {
    await patiently(store.connection, () => preparePartitions(store.client, store.partitions));
    const metrics = createMetrics({ process_metrics: true });
    const stopWatching = watchLoop(metrics, 'main');
    countFailedCalls(metrics, store.client);
    const nameOf = accountNames(store, [LOCAL_ACCOUNT, ...config.access_tokens.map(({ account }) => account)]);
    const limiters = new LimiterTop(metrics, config.metrics_token === null ? null : nameOf);
    watchStore(metrics, store, limiters);
    metrics.gauge('build_info', { version: VERSION, node: process.version }).set(1);
    const process_id = base62(Number(randomBytes(6).readUIntBE(0, 6)), 9);
    const memory = new MemoryWatch({ client: store.client, onChange: (state) => onMemory(state), log });
    const callbacks = callbackService(config, store, metrics, limiters, process_id, memory, log);
    const policy = policyOf(config);
    const intake = makeIntake({ policy, connection: store.connection, log_level: config.log_level }, log);
    const cron = config.roles.includes('cron') ? cronService(config, store, metrics, memory, log) : null;
    const onMemory = (state: MemoryState): void => {
      callbacks.setMemory(state);
      cron?.setMemory(state);
    };
    const streams = config.roles.includes('streams') ? makeStreams(config, store, metrics, process_id, log) : null;
    const spans = new RequestSpans(config.tracing, { version: VERSION, metrics, log });
    const { alive: threadsAlive } = callbacks;
    const budget = new CompileBudget();
    budget.started();
    const phase = new Phase(log);
    const ops: Ops = { ready: () => readiness({ config, store, threadsAlive, cron, phase }), metrics: () => metrics.text() };
    const door = new FrontDoorService({
      config,
      store,
      metrics,
      ops,
      policy,
      intake,
      streams,
      memory,
      spans,
      budget,
      log,
    });
    const services: Service[] = [new PartitionWatch(store, log), memory];
    const sharing = [...(config.roles.includes('callbacks') ? [callbacks] : []), ...(cron === null ? [] : [cron])];
    services.push(...sharing.map(({ pool }) => pool));
    if (sharing.length > 0)
      services.push(
        membershipOf(
          store,
          process_id,
          sharing.map(({ group }) => group),
          log,
        ),
      );
    if (config.roles.includes('api')) services.push(...intake.workers, ...(streams === null ? [] : [streams.pool]), spans, door);
    services.push(phase);
    // The last to go, so that a drain can be watched.
    if (config.ops_port !== null) services.unshift(new OpsDoor(config, config.ops_port, ops, log));
    await runAll(services, stopped, config.drain_timeout_ms);
    stopWatching();
  } finally {
    await store.close();
  }
  log.info('stopped');
}

function membershipOf(store: Store, id: string, groups: readonly ThreadGroup[], log: Log): Membership {
  return new Membership({ client: store.client, id, groups, partitions: store.partition_count, log });
}

function policyOf({ allow_private_targets, egress_allow_cidrs, egress_deny_cidrs }: Config): EgressPolicy {
  return egressPolicy({ allow_private: allow_private_targets, allow_cidrs: egress_allow_cidrs, deny_cidrs: egress_deny_cidrs });
}

interface FrontDoorParts {
  config: Config;
  store: Store;
  metrics: Metrics;
  ops: Ops;
  policy: EgressPolicy;
  intake: Intake;
  streams: StreamService | null;
  memory: MemoryWatch;
  spans: RequestSpans;
  budget: CompileBudget;
  log: Log;
}

/** The API, as a service. */
class FrontDoorService implements Service {
  readonly name = 'http';
  readonly #parts: FrontDoorParts;
  readonly #durability: Durability;
  readonly #relayer: Relayer;
  #server: Server | null = null;

  constructor(parts: FrontDoorParts) {
    this.#parts = parts;
    const { config, store, log } = parts;
    this.#durability = openDurability({ client: store.client, connection: store.connection, mode: config.durability, log });
    this.#relayer = new Relayer({
      client: store.client,
      keep: keepOf(config),
      confirm: (partition) => this.#durability.confirm(partition),
      meter: relayMeterOf(parts.metrics),
      log,
    });
  }

  async start(): Promise<void> {
    const config = this.#parts.config;
    const metrics = this.#parts.metrics;
    const local = await this.#localToken();
    const fixed = [...config.access_tokens, ...(local === null ? [] : [{ account: LOCAL_ACCOUNT, token: local.token }])];
    const weak = config.access_tokens.filter(isGuessable).map(({ account }) => account);
    if (weak.length > 0) this.#parts.log.warn({ accounts: weak }, 'tokens of SLUICE_ACCESS_TOKENS are so short that one can guess them');
    const requests = requestMeter(metrics);
    const context = this.#context();
    const quota = makeQuota(context);
    this.#server = await startServer({
      host: config.host,
      port: config.port,
      api: makeApi(context),
      quota: (route, call) => (route.quota === null ? null : quota(route.quota, call)),
      auth: new Authenticator({ lookup: (hash) => lookupToken(this.#parts.store.client, hash), fixed, clock: systemClock }),
      ops: this.#parts.ops,
      metrics_token: config.metrics_token,
      pages: loadPages(DASHBOARD),
      max_body_bytes: config.max_body_bytes,
      large: this.#parts.intake,
      streams: this.#parts.streams,
      tracing: this.#parts.spans.tracing,
      onRequest: ({ route, status, duration_ms }) => requests(route, status, duration_ms),
      log: this.#parts.log,
    });
    const connections = metrics.gauge('http_connections', {});
    metrics.beforeSnapshot(() => connections.set(this.#server?.connections ?? 0));
    const url = urlOf(config, this.#server.port);
    this.#parts.log.info({ url, roles: config.roles, partitions: this.#parts.store.partitions }, 'listening');
    if (local !== null) process.stdout.write(greeting({ url, version: VERSION, account: LOCAL_ACCOUNT, ...local }));
  }

  async stop(deadline_ms: number): Promise<void> {
    await this.#server?.stop(deadline_ms);
    await this.#relayer.stop(RELAY_STOP_MS);
    this.#durability.close();
  }

  /** The token that a server without any makes for itself, where its Redis is its own. */
  async #localToken(): Promise<ReturnType<typeof ensureLocalToken> | null> {
    const { access_tokens, redis_url, data_dir } = this.#parts.config;
    if (access_tokens.length > 0) return null;
    if (redis_url !== null && !existsSync(join(data_dir, 'token'))) return null;
    return ensureLocalToken(data_dir);
  }

  #context(): ApiContext {
    const { client, partition_count: partitions } = this.#parts.store;
    const placement = new Placement(partitions);
    const batches = this.#parts.metrics.counter('batches_created_total', {});
    const tasks = this.#parts.metrics.counter('tasks_created_total', { source: 'batch' });
    const scheduled = this.#parts.metrics.counter('tasks_created_total', { source: 'schedule' });
    const singles = this.#parts.metrics.counter('tasks_created_total', { source: 'single' });
    const degraded = this.#parts.metrics.counter('durability_degraded_total', {});
    const dropped = this.#parts.metrics.counter('notifications_dropped_total', {});
    const collector = new QuietCollector();
    return {
      client,
      partitions,
      keep: keepOf(this.#parts.config),
      policy: this.#parts.policy,
      admit: () => this.#parts.memory.admit(),
      prepare: this.#parts.intake.prepare,
      limits: {
        batch_create: this.#parts.config.limit_batch_create,
        batch_add: this.#parts.config.limit_batch_add,
        batch_status: this.#parts.config.limit_batch_status,
      },
      schedule_lead_ms: this.#parts.config.schedule_lead_ms,
      streams: this.#parts.streams?.places ?? null,
      placement,
      durability: this.#durability,
      relay: (partition) => this.#relayer.relay(partition),
      trays: new TrayWriter({ client, placement, clock: systemClock }),
      reads: new BatchReader({ client, limit: this.#parts.config.limit_batch_status }),
      pages: new PageTurns(),
      meter: {
        batch: (count) => {
          batches.add();
          tasks.add(count);
          this.#parts.budget.batched(count);
        },
        added: (count) => {
          tasks.add(count);
          this.#parts.budget.batched(count);
        },
        single: () => {
          singles.add();
          collector.used();
          this.#parts.budget.single();
        },
        dropped: (batch_id, notifications) => {
          dropped.add(notifications);
          this.#parts.log.warn({ batch_id, notifications }, 'a batch was deleted with notifications that were not delivered');
        },
        repaired: repairMeterOf(this.#parts.metrics, this.#parts.log),
        scheduled: (count) => scheduled.add(count),
        degraded: () => degraded.add(),
      },
    };
  }
}

function requestMeter(metrics: Metrics): (route: string, status: number, duration_ms: number) => void {
  const known = new Map<string, { observe(value: number): void }>();
  return (route, status, duration_ms) => {
    const name = `${route} ${status}`;
    let histogram = known.get(name);
    if (histogram === undefined) {
      histogram = metrics.histogram('api_request_seconds', { route, status: String(status) });
      known.set(name, histogram);
    }
    histogram.observe(duration_ms / 1000);
  };
}

/** Resolves at the first SIGTERM or SIGINT; the second one ends the process where it stands. */
function untilSignal(log: Log): Promise<void> {
  return new Promise((stop) => {
    let signals = 0;
    const onSignal = (signal: NodeJS.Signals): void => {
      signals += 1;
      if (signals > 1) process.exit(1);
      log.info({ signal }, 'stopping: running callbacks may finish');
      stop();
    };
    process.on('SIGTERM', onSignal);
    process.on('SIGINT', onSignal);
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = await main();
