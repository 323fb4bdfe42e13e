// How late the event loop of this thread is.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Metrics } from './registry.ts';

const RESOLUTION_MS = 10;
const QUANTILES = ['0.5', '0.99', '1'] as const;

/** Sets `event_loop_lag_seconds` of `thread` at each snapshot or text, over the time since the last. Returns what ends it. */
export function watchLoop(metrics: Metrics, thread: string): () => void {
  const monitor = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  const gauges = QUANTILES.map((quantile) => ({ quantile, gauge: metrics.gauge('event_loop_lag_seconds', { thread, quantile }) }));
  monitor.enable();
  metrics.beforeSnapshot(() => {
    for (const { quantile, gauge } of gauges) {
      // The monitor counts its own interval as delay; nanoseconds.
      const ns = quantile === '1' ? monitor.max : monitor.percentile(Number(quantile) * 100);
      gauge.set(monitor.count === 0 ? 0 : Math.max(0, ns / 1e9 - RESOLUTION_MS / 1e3));
    }
    monitor.reset();
  });
  return () => monitor.disable();
}
