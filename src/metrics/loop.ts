// How late the event loop of this thread is.
//
// The monitor wakes its thread a hundred times a second, which is most of what an idle thread costs, and a loop that has nothing to
// do is not late. So it runs while the thread has work, and a look each second sees when that begins and ends. Between, what is
// known is how late that look itself was.
import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import type { Metrics } from './registry.ts';

const RESOLUTION_MS = 10;
const PERCENTILES = [50, 99, 100] as const;
const LOOK_MS = 1_000;
/** Of its time a thread must be at work for the monitor to begin, and to go on, which takes up to two hundredths by itself: a fifth of that work at most. */
const BUSY_SHARE = 0.1;
const BUSY_WATCHED_SHARE = 0.12;
/** Looks in a row that find a thread below that, until the monitor ends. */
const CALM_LOOKS = 5;
/** Timers are up to so late by themselves. */
const TIMER_MS = 2;

/** Sets `event_loop_lag_seconds` of `thread` at each snapshot or text, over the time since the last. Returns what ends it. */
export function watchLoop(metrics: Metrics, thread: string): () => void {
  const monitor = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  const gauges = PERCENTILES.map((percentile) => ({
    percentile,
    gauge: metrics.gauge('event_loop_lag_seconds', { thread, percentile: String(percentile) }),
  }));
  let running = monitor.enable();
  let calm_looks = 0;
  let late_ms = 0;
  let looked_ms = performance.now();
  let used = performance.eventLoopUtilization();
  const look = (): void => {
    const now_ms = performance.now();
    const late = now_ms - looked_ms - LOOK_MS;
    if (late > TIMER_MS) late_ms = Math.max(late_ms, late);
    looked_ms = now_ms;
    const busy = performance.eventLoopUtilization(used).utilization > (running ? BUSY_WATCHED_SHARE : BUSY_SHARE);
    used = performance.eventLoopUtilization();
    calm_looks = busy ? 0 : calm_looks + 1;
    if (busy && !running) running = monitor.enable();
    else if (calm_looks >= CALM_LOOKS && running) running = !monitor.disable();
  };
  const timer = setInterval(look, LOOK_MS).unref();
  metrics.beforeSnapshot(() => {
    for (const { percentile, gauge } of gauges) {
      // The monitor counts its own interval as delay; nanoseconds.
      const ns = percentile === 100 ? monitor.max : monitor.percentile(percentile);
      const seen_s = monitor.count === 0 ? 0 : Math.max(0, ns / 1e9 - RESOLUTION_MS / 1e3);
      gauge.set(percentile === 100 ? Math.max(seen_s, late_ms / 1e3) : seen_s);
    }
    monitor.reset();
    late_ms = 0;
  });
  return () => {
    clearInterval(timer);
    monitor.disable();
  };
}
