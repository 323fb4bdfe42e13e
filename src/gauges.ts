// Gauges of Redis and the queues, looked up when somebody scrapes, at most every few seconds.
import { monotonicMs } from './base/clock.ts';
import type { RelayMeter } from './delivery/relayer.ts';
import type { Metrics } from './metrics/registry.ts';
import type { Store } from './store/connect.ts';
import { lookAtPartition, redisMemory } from './store/gauges.ts';
import { scheduleLag } from './store/schedules.ts';

const LOOK_MS = 5_000;
const CLASSES = ['fresh', 'retry', 'notification', 'delayed'] as const;

/** Sets queue_depth, oldest_waiting_seconds, schedule_lag_seconds and the Redis gauges before each text of `metrics`. */
export function watchStore(metrics: Metrics, store: Store): void {
  const depth = CLASSES.map((name) => metrics.gauge('queue_depth', { class: name }));
  const oldest = metrics.gauge('oldest_waiting_seconds', {});
  const schedule_lag = metrics.gauge('schedule_lag_seconds', {});
  const up = metrics.gauge('redis_up', {});
  const latency = metrics.histogram('redis_command_seconds', { script: 'partition/look' });
  let looked_ms = Number.NEGATIVE_INFINITY;
  metrics.beforeText(async () => {
    const began_ms = monotonicMs();
    if (began_ms - looked_ms < LOOK_MS) return;
    looked_ms = began_ms;
    try {
      const looks = await Promise.all(
        Array.from({ length: store.partitions }, async (_, partition) => {
          const sent_ms = monotonicMs();
          const look = await lookAtPartition(store.client, partition);
          latency.observe((monotonicMs() - sent_ms) / 1000);
          return look;
        }),
      );
      for (const [i, gauge] of depth.entries()) gauge.set(looks.reduce((sum, look) => sum + (look.waiting[i] ?? 0), 0));
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
