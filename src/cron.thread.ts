// The thread that decides ticks of schedules: opens its own Redis client and looks after the partitions that the main
// thread gives it.
import type { MessagePort } from 'node:worker_threads';
import { createLog } from './base/log.ts';
import type { LogLevel } from './base/log-level.ts';
import { countFailedCalls } from './failed-calls.ts';
import { watchLoop } from './metrics/loop.ts';
import { createMetrics, type Metrics, type MetricsSnapshot } from './metrics/registry.ts';
import { Ticker, type TickMeter } from './schedules/ticker.ts';
import { type ConnectionSpec, joinStore } from './store/connect.ts';
import { deletedOf } from './store/limiters.ts';
import type { JobInput } from './threads/pool.ts';

/** What the main thread gives it; structured-cloneable. */
export interface CronThreadData {
  connection: ConnectionSpec;
  partitions: number;
  lead_ms: number;
  catch_up_ms: number;
  sweep_ms: number;
  grace_ms: number;
  log_level: LogLevel;
}

export type ToCronThread =
  | { type: 'own'; partitions: readonly number[] }
  | { type: 'memory'; full: boolean }
  | { type: 'stop'; deadline_ms: number };
export type FromCronThread = { type: 'metrics'; snapshot: MetricsSnapshot };

const SNAPSHOT_MS = 1_000;

export default async function run({ data, port }: JobInput<CronThreadData>): Promise<void> {
  const log = createLog({ level: data.log_level, fields: { thread: 'cron' } });
  const store = await joinStore({ connection: data.connection, partitions: data.partitions, log, role: 'cron' });
  const metrics = createMetrics();
  countFailedCalls(metrics, store.client);
  const stopWatching = watchLoop(metrics, 'cron');
  const { lead_ms, catch_up_ms, sweep_ms, grace_ms } = data;
  const ticker: Ticker = new Ticker({
    client: store.client,
    hints: store.subscriber({ onGap: (channel) => ticker.heardAgain(channel), onDeaf: (channel) => ticker.heardAgain(channel) }),
    settings: { lead_ms, catch_up_ms, sweep_ms, grace_ms },
    missingLimiters: (account_id, lanes) => deletedOf(store.client, account_id, lanes),
    meter: meterOf(metrics),
    log,
  });
  await ticker.start();
  const posting = setInterval(() => post(port, metrics), SNAPSHOT_MS);
  await untilStop(port, ticker);
  await ticker.stop();
  clearInterval(posting);
  post(port, metrics);
  stopWatching();
  await store.close();
}

function post(port: MessagePort, metrics: Metrics): void {
  const snapshot = metrics.news();
  if (snapshot === null) return;
  const message: FromCronThread = { type: 'metrics', snapshot };
  port.postMessage(message);
}

/** Follows what the main thread says, until it says stop. */
function untilStop(port: MessagePort, ticker: Ticker): Promise<void> {
  return new Promise((stop) => {
    port.on('message', (message: ToCronThread) => {
      if (message.type === 'own') ticker.assign(message.partitions);
      else if (message.type === 'memory') ticker.hold(message.full);
      else stop();
    });
    port.postMessage({ type: 'ready' });
  });
}

function meterOf(metrics: Metrics): TickMeter {
  const runs = metrics.counter('schedule_runs_total', {});
  const tasks = metrics.counter('tasks_created_total', { source: 'schedule' });
  const skipped = {
    overlap: metrics.counter('schedule_skipped_total', { reason: 'overlap' }),
    missed: metrics.counter('schedule_skipped_total', { reason: 'missed' }),
    limiter: metrics.counter('schedule_skipped_total', { reason: 'limiter' }),
  };
  const lag = metrics.histogram('schedule_decision_seconds', {});
  return {
    made: (count) => {
      runs.add();
      tasks.add(count);
    },
    skipped: (reason, ticks) => skipped[reason].add(ticks),
    lag: (ms) => lag.observe(ms / 1000),
  };
}
