// Gauges of Redis and the queues, looked up when somebody scrapes, at most every few seconds.
import { monotonicMs } from './base/clock.ts';
import { accountId, partitionOf } from './base/id.ts';
import { type Log, limitedLog } from './base/log.ts';
import type { RelayMeter } from './delivery/relayer.ts';
import type { LimiterTop, NameOf } from './metrics/limiters.ts';
import type { Metrics } from './metrics/registry.ts';
import { LIMITER_TYPES } from './schema/limiters/kinds.ts';
import type { Store } from './store/connect.ts';
import { type Look, lookAtPartition, redisMemory } from './store/gauges.ts';
import { REPAIRS, type RepairMeter } from './store/reconcile.ts';
import { scheduleLag } from './store/schedules.ts';
import { accountName } from './store/tokens.ts';
import type { SpanFate, TracingDeps } from './tracing/attempts.ts';

const LOOK_MS = 5_000;
const CLASSES = ['fresh', 'retry', 'notification', 'delayed', 'limited'] as const;

/** Sets queue_depth, oldest_waiting_seconds, schedule_lag_seconds, what waits for limiters and the Redis gauges before each text of `metrics`. */
export function watchStore(metrics: Metrics, store: Store, top: LimiterTop): void {
  const depth = CLASSES.map((name) => metrics.gauge('queue_depth', { class: name }));
  const oldest = metrics.gauge('oldest_waiting_seconds', {});
  const limited = LIMITER_TYPES.map((type) => metrics.gauge('limiter_waiting', { type }));
  const schedule_lag = metrics.gauge('schedule_lag_seconds', {});
  const up = metrics.gauge('redis_up', {});
  const latency = metrics.histogram('redis_command_seconds', { script: 'partition/look' });
  let looked_ms = Number.NEGATIVE_INFINITY;
  metrics.beforeText(async () => {
    const began_ms = monotonicMs();
    if (began_ms - looked_ms < LOOK_MS) return;
    looked_ms = began_ms;
    const lanes = Array.from({ length: store.partitions }, (): string[] => []);
    for (const lane of top.lanes()) lanes[partitionOf(lane)]?.push(lane);
    try {
      const looks = await Promise.all(
        Array.from({ length: store.partitions }, async (_, partition) => {
          const sent_ms = monotonicMs();
          const look = await lookAtPartition(store.client, partition, lanes[partition]);
          latency.observe((monotonicMs() - sent_ms) / 1000);
          return look;
        }),
      );
      const sums = (of: (look: Look) => readonly number[]) => (_: unknown, i: number) =>
        looks.reduce((sum, look) => sum + (of(look)[i] ?? 0), 0);
      const limited_sums = limited.map(sums((look) => look.limited));
      for (const [i, gauge] of limited.entries()) gauge.set(limited_sums[i] ?? 0);
      const depths = [...CLASSES.slice(0, -1).map(sums((look) => look.waiting)), limited_sums.reduce((sum, one) => sum + one, 0)];
      for (const [i, gauge] of depth.entries()) gauge.set(depths[i] ?? 0);
      for (const [p, look] of looks.entries()) {
        for (const [i, lane] of (lanes[p] ?? []).entries()) top.waits(lane, look.lanes[i] ?? 0);
      }
      oldest.set(Math.max(...looks.map((look) => look.oldest_ms)) / 1000);
      const lags = await Promise.all(Array.from({ length: store.partitions }, (_, partition) => scheduleLag(store.client, partition)));
      schedule_lag.set(Math.max(...lags) / 1000);
      for (const [node, memory] of (await redisMemory(store.client)).entries()) {
        metrics.gauge('redis_memory_bytes', { node: String(node) }).set(memory.used_bytes);
        metrics.gauge('redis_memory_max_bytes', { node: String(node) }).set(memory.max_bytes);
      }
      up.set(1);
    } catch {
      up.set(0); // the gauge is the report
    }
  });
}

/** Where the numbers of a process's or a thread's relayer go. */
export function relayMeterOf(metrics: Metrics): RelayMeter {
  const moved = metrics.counter('messages_moved_total', {});
  const failed = metrics.counter('messages_failed_total', {});
  const resent = metrics.counter('references_resent_total', {});
  return {
    moved: (count) => moved.add(count),
    failed: () => failed.add(),
    swept: (swept) => resent.add(swept.resent),
  };
}

/** Counts what was found not to be as it must, and tells the operator; `where` says what it was found in. */
export function repairMeterOf(metrics: Metrics, log: Log): RepairMeter {
  const reconciled = new Map(REPAIRS.map((what) => [what, metrics.counter('reconciled_total', { what })]));
  const limited = limitedLog(log);
  return (where, what, count) => {
    reconciled.get(what)?.add(count);
    limited.error({ ...where, what, count }, `${what}: something was not as it must be and was set right`);
  };
}

/** Counts what becomes of the spans of a process's or a thread's. */
export function spanMeterOf(metrics: Metrics): TracingDeps['counted'] {
  const of = (fate: SpanFate) => metrics.counter('spans_total', { fate });
  const fates = { exported: of('exported'), failed: of('failed'), dropped: of('dropped') };
  return (fate, spans) => fates[fate].add(spans);
}

/** Names of accounts by their ids, for the operator; `fixed` are those that have no token in Redis. Who cannot be found keeps his id. */
export function accountNames(store: Store, fixed: readonly string[]): NameOf {
  const known = new Map(fixed.map((name) => [accountId(name), name]));
  return async (id) => known.get(id) ?? (await accountName(store.client, id).catch(() => null)) ?? id;
}
