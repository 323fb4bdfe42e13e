// A callback thread: opens its own Redis and outbound clients and turns the partitions that the main thread gives it.
import { getHeapSpaceStatistics } from 'node:v8';
import { BroadcastChannel, type MessagePort } from 'node:worker_threads';
import { RECOVERIES_MAX } from './base/limits.ts';
import { createLog, limitedLog } from './base/log.ts';
import type { LogLevel } from './base/log-level.ts';
import type { DeliveryMeter } from './delivery/meter.ts';
import { Reconciler } from './delivery/reconciler.ts';
import { Relayer } from './delivery/relayer.ts';
import { CallbackShard } from './delivery/shard.ts';
import { countFailedCalls } from './failed-calls.ts';
import { relayMeterOf, repairMeterOf, spanMeterOf } from './gauges.ts';
import { type LimiterCounts, LimiterTally } from './metrics/limiters.ts';
import { watchLoop } from './metrics/loop.ts';
import { createMetrics, type Metrics, type MetricsSnapshot } from './metrics/registry.ts';
import { Outbound, type OutboundOptions } from './outbound/outbound.ts';
import { LIMITER_TYPES, letterOf } from './schema/limiters/kinds.ts';
import { NOTIFICATION_EVENTS, type NotificationEvent } from './schema/notifications.ts';
import type { Keep } from './store/batches.ts';
import { type ConnectionSpec, joinStore } from './store/connect.ts';
import { type DurabilityMode, openDurability } from './store/durability.ts';
import type { JobInput } from './threads/pool.ts';
import { QuietCollector } from './threads/quiet-collector.ts';
import { YoungSpace, youngBytes } from './threads/young-space.ts';
import type { OpenTracing } from './tracing/attempts.ts';
import type { TracingSettings } from './tracing/settings.ts';

/** What the main thread gives a callback thread; structured-cloneable. */
export interface CallbackThreadData {
  /** Unique to this life of this thread: what it has in flight is kept under it. */
  holder: string;
  index: number;
  /** It takes single tasks as they come, and claims nothing. */
  express: boolean;
  connection: ConnectionSpec;
  partitions: number;
  keep: Keep;
  durability: DurabilityMode;
  silence_ms: number;
  sweep_ms: number;
  grace_ms: number;
  in_flight_max: number;
  notification_delays_ms: readonly number[];
  outbound: Pick<
    OutboundOptions,
    'version' | 'allow_private' | 'allow_cidrs' | 'deny_cidrs' | 'connections_per_origin_max' | 'connections_max'
  >;
  tracing: TracingSettings | null;
  log_level: LogLevel;
}

export type ToCallbackThread =
  | { type: 'own'; partitions: readonly number[] }
  | { type: 'memory'; purge: boolean; brief: boolean }
  | { type: 'stop'; deadline_ms: number };
/** `limiters`: what is new since the message before; `snapshot`: null where it would be as in that. */
export type FromCallbackThread = { type: 'metrics'; snapshot: MetricsSnapshot | null; limiters: readonly LimiterCounts[] };

/** What callback threads of a process tell each other (delivery/pumps.ts), and where. */
type ToCompany = { type: 'help'; partition: number; parked: readonly string[]; ready: boolean } | { type: 'left'; partition: number };
const COMPANY = 'sluice-callbacks';

const SNAPSHOT_MS = 1_000;
const RELAY_STOP_MS = 1_000;
const TRACING_STOP_MS = 2_000;
/** What a look around costs a few commands, a look at everything costs one for each thousand keys: a minute lies between two. */
const SWEEPS_A_PASS = 12;
/**
 * If nobody called a partition for this long, it was not the holders' fault. More than a dead process's partitions go
 * without a call (2 s where their owner does not know of it, 1.25 s until they have one: delivery/membership.ts); with the
 * time between two calls (2.5 s) less than the silence that counts as death. Even where a gap comes right after a death, as
 * when the only process is started again, its work is back 5.6 s after the first call (lua/partition/tick.lua).
 */
const GAP_MS = 5_000;
/** Shorter than the silence after which others take over, so that nothing is started that they may have. */
const FENCE_SHARE = 0.75;

export default function run(input: JobInput<CallbackThreadData>): Promise<void> {
  return runCallbacks(input, null);
}

/** `openTracing` is null where nothing is traced. */
export async function runCallbacks({ data, port }: JobInput<CallbackThreadData>, openTracing: OpenTracing | null): Promise<void> {
  const name = `callbacks/${data.express ? 'express' : data.index}`;
  const log = createLog({ level: data.log_level, fields: { thread: name } });
  const store = await joinStore({ connection: data.connection, partitions: data.partitions, log, role: 'callbacks' });
  const metrics = createMetrics();
  countFailedCalls(metrics, store.client);
  const limiters = new LimiterTally();
  // An express never has much to do: what is young in it goes while nobody waits.
  const young_space = data.express ? null : new YoungSpace();
  const stopWatching = watchLoop(metrics, name);
  const outbound = new Outbound(data.outbound);
  const {
    tracing: settings,
    outbound: { version },
  } = data;
  const spans = { version, counted: spanMeterOf(metrics), log: limitedLog(log) };
  const tracing = settings === null || openTracing === null ? null : openTracing({ settings, ...spans });
  const durability = openDurability({ client: store.client, connection: data.connection, mode: data.durability, log });
  const relayer = new Relayer({
    client: store.client,
    keep: data.keep,
    confirm: (partition) => durability.confirm(partition),
    meter: relayMeterOf(metrics),
    log,
  });
  // An express neither helps nor is helped: it need not be woken.
  const company = data.express ? null : new BroadcastChannel(COMPANY);
  const shard: CallbackShard = new CallbackShard({
    client: store.client,
    hints: store.subscriber({ onGap: (channel) => shard.heardAgain(channel), onDeaf: (channel) => shard.deaf(channel) }),
    outbound,
    relayer,
    company: {
      help: (partition, parked, ready) => company?.postMessage({ type: 'help', partition, parked, ready } satisfies ToCompany),
      left: (partition) => company?.postMessage({ type: 'left', partition } satisfies ToCompany),
    },
    settings: {
      holder: data.holder,
      silence_ms: data.silence_ms,
      gap_ms: Math.min(GAP_MS, data.silence_ms),
      grace_ms: data.grace_ms,
      ...data.keep,
      recoveries_max: RECOVERIES_MAX,
      sweep_ms: data.sweep_ms,
      fence_ms: data.silence_ms * FENCE_SHARE,
    },
    express: data.express,
    in_flight_max: data.in_flight_max,
    in_flight_per_origin_max: data.outbound.connections_per_origin_max,
    notification_delays_ms: data.notification_delays_ms,
    audit_ms: data.sweep_ms,
    meter: meterOf(metrics, limiters, young_space ?? new QuietCollector()),
    tracing,
    log,
  });
  if (company !== null) {
    company.onmessage = (event) => {
      const told = (event as MessageEvent).data as ToCompany;
      if (told.type === 'help') shard.help(told.partition, told.parked, told.ready);
      else shard.left(told.partition);
    };
  }
  let owned: ReadonlySet<number> = new Set();
  const reconciler = new Reconciler({
    client: store.client,
    keep: data.keep,
    // Somebody always owns the first partition.
    chosen: () => !data.express && owned.has(0),
    pass_ms: data.sweep_ms * SWEEPS_A_PASS,
    repaired: repairMeterOf(metrics, log),
    log,
  });
  const in_flight = metrics.gauge('callbacks_in_flight', {});
  const broken = metrics.gauge('origins_broken', {});
  metrics.beforeSnapshot(() => {
    in_flight.set(shard.in_flight);
    broken.set(shard.origins.broken);
  });
  await shard.start();
  await reconciler.start();
  const posting = setInterval(() => {
    post(port, metrics, limiters);
    young_space?.tick(youngBytes(getHeapSpaceStatistics()));
  }, SNAPSHOT_MS);
  const deadline_ms = await untilStop(port, shard, (partitions) => {
    owned = new Set(partitions);
  });
  await Promise.all([reconciler.stop(), shard.stop(deadline_ms)]);
  await Promise.all([relayer.stop(RELAY_STOP_MS), tracing?.stop(TRACING_STOP_MS)]);
  company?.close();
  durability.close();
  clearInterval(posting);
  post(port, metrics, limiters);
  stopWatching();
  await outbound.close();
  await store.close();
}

function post(port: MessagePort, metrics: Metrics, limiters: LimiterTally): void {
  const message: FromCallbackThread = { type: 'metrics', snapshot: metrics.news(), limiters: limiters.drain() };
  if (message.snapshot === null && message.limiters.length === 0) return;
  port.postMessage(message);
}

/** Follows what the main thread says, until it says stop. */
function untilStop(port: MessagePort, shard: CallbackShard, own: (partitions: readonly number[]) => void): Promise<number> {
  return new Promise((stop) => {
    port.on('message', (message: ToCallbackThread) => {
      if (message.type === 'own') {
        own(message.partitions);
        shard.assign(message.partitions);
      } else if (message.type === 'memory') shard.setMemory(message);
      else stop(message.deadline_ms);
    });
    port.postMessage({ type: 'ready' });
  });
}

function meterOf(metrics: Metrics, limiters: LimiterTally, thread: { used(): void }): DeliveryMeter {
  const outcome = (name: string) => metrics.counter('callbacks_total', { outcome: name });
  const ends = { completed: outcome('completed'), retried: outcome('retry'), failed: outcome('failed'), returned: outcome('returned') };
  const duration = metrics.histogram('callback_duration_seconds', {});
  const lag = metrics.histogram('delivery_lag_seconds', {});
  const notified = (event: NotificationEvent) => {
    const of = (name: string) => metrics.counter('notifications_total', { event, outcome: name });
    return { completed: of('delivered'), retried: of('retry'), failed: of('failed'), returned: of('returned') };
  };
  const notifications = new Map(NOTIFICATION_EVENTS.map((event) => [event, notified(event)]));
  const notification_lag = metrics.histogram('notification_lag_seconds', {});
  const recovered = metrics.counter('recovered_leases_total', {});
  const early = metrics.counter('retention_early_total', {});
  const limited = (type: string) => ({
    grants: metrics.counter('limiter_grants_total', { type }),
    timeouts: metrics.counter('limiter_timeouts_total', { type }),
    waits: metrics.histogram('limiter_wait_seconds', { type }),
  });
  const kinds = new Map(LIMITER_TYPES.map((type) => [letterOf(type), limited(type)]));
  const unknown = limited('unknown'); // its record is lost
  const reclaimed = metrics.counter('limiter_slots_reclaimed_total', {});
  return {
    ended: (end, ms) => {
      thread.used();
      ends[end].add();
      if (end !== 'returned') duration.observe(ms / 1000);
    },
    notified: (event, end, lag_ms) => {
      notifications.get(event)?.[end].add();
      if (end === 'completed') notification_lag.observe(lag_ms / 1000);
    },
    lag: (ms) => lag.observe(ms / 1000),
    ticked: (reply) => {
      recovered.add(reply.recovered);
      early.add(reply.early);
    },
    granted: (reply) => {
      for (const lane of reply.lanes) {
        const of = kinds.get(lane.kind) ?? unknown;
        of.grants.add(lane.granted);
        of.timeouts.add(lane.expired);
        reclaimed.add(lane.reclaimed);
        for (let i = 0; i < lane.waits.length; i += 2) of.waits.observe((lane.waits[i] ?? 0) / 1000, lane.waits[i + 1]);
        limiters.add(lane);
      }
    },
    handed_back: (count) => recovered.add(count),
  };
}
