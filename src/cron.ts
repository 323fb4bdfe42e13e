// The cron role of a process: the thread that decides ticks, and what tells it which partitions are its own.
import { extname } from 'node:path';
import type { Log } from './base/log.ts';
import type { Service } from './base/service.ts';
import type { Config } from './config.ts';
import type { CronThreadData, FromCronThread, ToCronThread } from './cron.thread.ts';
import type { ThreadGroup } from './delivery/membership.ts';
import type { MemoryState, MemoryWatch } from './memory.ts';
import type { Metrics } from './metrics/registry.ts';
import type { Store } from './store/connect.ts';
import { ThreadPool } from './threads/pool.ts';

/** One is enough: deciding a tick takes it some 20 µs. Partitions are shared among processes. */
const THREADS = 1;
/** Most runs are made minutes ahead, so a bell that was lost may be noticed a little later here than where work waits. */
const SWEEPS = 2;

export interface CronService {
  pool: Service;
  /** Shares the partitions with those of other processes. */
  group: ThreadGroup;
  alive(): boolean;
  setMemory(state: MemoryState): void;
}

export function cronService(config: Config, store: Store, metrics: Metrics, memory: MemoryWatch, log: Log): CronService {
  const restarts = metrics.counter('thread_restarts_total', { pool: 'cron' });
  const threads = metrics.gauge('threads', { pool: 'cron' });
  let running = false;
  let owned: readonly number[] = [];
  const tell = (): void => {
    const message: ToCronThread = { type: 'own', partitions: owned };
    pool.post(0, message);
  };
  const setMemory = ({ full }: MemoryState): void => {
    const message: ToCronThread = { type: 'memory', full };
    pool.post(0, message);
  };
  const data: CronThreadData = {
    connection: store.connection,
    partitions: store.partitions,
    lead_ms: config.schedule_lead_ms,
    catch_up_ms: config.schedule_catch_up_ms,
    grace_ms: config.lease_grace_ms,
    sweep_ms: config.sweep_interval_ms * SWEEPS,
    log_level: config.log_level,
  };
  const pool = new ThreadPool<CronThreadData>({
    name: 'cron',
    entry: new URL(`./cron.thread${extname(import.meta.url)}`, import.meta.url),
    threads: THREADS,
    dataFor: () => data,
    onMessage: (_, life, message) => metrics.merge(`cron/${life}`, (message as FromCronThread).snapshot),
    onReady: () => {
      running = true;
      threads.set(1);
      setMemory(memory.state);
      tell();
    },
    onEnd: (_, life) => {
      running = false;
      threads.set(0);
      restarts.add();
      metrics.retire(`cron/${life}`);
    },
    log,
  });
  const group: ThreadGroup = {
    group: 'cron',
    threads: THREADS,
    onAssignment: ([partitions = []]) => {
      owned = partitions;
      tell();
    },
  };
  return { pool, group, alive: () => running, setMemory };
}
