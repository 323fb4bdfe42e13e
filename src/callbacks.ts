// The callback threads of this process: started, told which partitions are theirs, and watched.
import { extname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { monotonicMs } from './base/clock.ts';
import type { Log } from './base/log.ts';
import type { CallbackThreadData, FromCallbackThread, ToCallbackThread } from './callbacks.thread.ts';
import type { Config } from './config.ts';
import type { ThreadGroup } from './delivery/membership.ts';
import type { MemoryState, MemoryWatch } from './memory.ts';
import type { LimiterTop } from './metrics/limiters.ts';
import type { Metrics } from './metrics/registry.ts';
import type { Keep } from './store/batches.ts';
import type { Store } from './store/connect.ts';
import { endOffer } from './store/offers.ts';
import { ThreadPool } from './threads/pool.ts';
import { VERSION } from './version.ts';

const SINGLE_KEEP_MS = 24 * 3_600_000;
const CONNECTIONS_MAX = 16_384;
/** Between the tries to end the offers of an express that is gone, and how many there are: as long as its next life takes. */
const END_AGAIN_MS = 500;
const END_TRIES = 20;

/** The callback threads of this process, and what tells them which partitions are theirs. */
export function callbackService(
  config: Config,
  store: Store,
  metrics: Metrics,
  limiters: LimiterTop,
  process_id: string,
  memory: MemoryWatch,
  log: Log,
) {
  const owners = config.callback_threads;
  // And the express.
  const threads = owners + 1;
  const running = new Set<number>();
  const restarts = metrics.counter('thread_restarts_total', { pool: 'callbacks' });
  const alive = metrics.gauge('threads', { pool: 'callbacks' });
  let owned: readonly (readonly number[])[] = [];
  const source = (index: number, life: number): string => `callbacks/${index}/${life}`;
  const holder = (index: number, life: number): string => `${process_id}.${index}.${life}`;
  /**
   * The express is gone: what is handed over to it would wait until it counts as silent. Its offers end, unless its next life is there and has made its own. And the owners
   * look at their partitions, at once and when no more can be handed over: they see what it left behind, and when that counts as silent.
   */
  const expressEnded = async (gone: string): Promise<void> => {
    for (let tries = 0, left = owned.flat(); left.length > 0 && tries < END_TRIES; tries++) {
      for (let index = 0; index < owners; index++) tell(index);
      const ended = await Promise.allSettled(left.map((partition) => endOffer(store.client, partition, gone)));
      left = left.filter((_, i) => ended[i]?.status === 'rejected');
      if (left.length > 0) await pause(END_AGAIN_MS, undefined, { ref: false });
    }
    for (let index = 0; index < owners; index++) tell(index);
  };
  const tell = (index: number): void => {
    const partitions = index === owners ? owned.flat() : (owned[index] ?? []);
    const message: ToCallbackThread = { type: 'own', partitions };
    pool.post(index, message);
  };
  const tellMemory = (index: number, state: MemoryState): void => {
    const message: ToCallbackThread = { type: 'memory', ...state };
    pool.post(index, message);
  };
  const pool = new ThreadPool<CallbackThreadData>({
    name: 'callbacks',
    entry: new URL(`./callbacks${config.tracing === null ? '' : '.traced'}.thread${extname(import.meta.url)}`, import.meta.url),
    threads,
    dataFor: (index, life) => ({ ...threadData(config, store, holder(index, life), index), express: index === owners }),
    onMessage: (index, life, message) => {
      const { snapshot, limiters: counts } = message as FromCallbackThread;
      if (snapshot !== null) metrics.merge(source(index, life), snapshot);
      void limiters.take(counts, monotonicMs());
    },
    onReady: (index) => {
      running.add(index);
      alive.set(running.size);
      tell(index);
      tellMemory(index, memory.state);
    },
    onEnd: (index, life) => {
      running.delete(index);
      alive.set(running.size);
      restarts.add();
      metrics.retire(source(index, life));
      if (index === owners) void expressEnded(holder(index, life));
    },
    log,
  });
  const group: ThreadGroup = {
    group: 'callbacks',
    threads: owners,
    onAssignment: (assignment) => {
      owned = assignment;
      for (let index = 0; index < threads; index++) tell(index);
    },
  };
  return {
    pool,
    group,
    // Without the express all work is done, by the owners.
    alive: () => Array.from({ length: owners }, (_, index) => running.has(index)).every(Boolean),
    setMemory: (state: MemoryState) => {
      for (let index = 0; index < threads; index++) tellMemory(index, state);
    },
  };
}

export function keepOf(config: Config): Keep {
  return { keep_ms: config.retention_ms, tray_keep_ms: SINGLE_KEEP_MS };
}

function threadData(config: Config, store: Store, holder: string, index: number): Omit<CallbackThreadData, 'express'> {
  return {
    holder,
    index,
    connection: store.connection,
    partitions: store.partitions,
    keep: keepOf(config),
    durability: config.durability,
    silence_ms: config.holder_silence_ms,
    sweep_ms: config.sweep_interval_ms,
    grace_ms: config.lease_grace_ms,
    in_flight_max: config.callbacks_per_thread,
    notification_delays_ms: config.notification_retry_delays_ms,
    outbound: {
      version: VERSION,
      allow_private: config.allow_private_targets,
      allow_cidrs: config.egress_allow_cidrs,
      deny_cidrs: config.egress_deny_cidrs,
      connections_per_origin_max: config.connections_per_origin,
      connections_max: CONNECTIONS_MAX,
    },
    tracing: config.tracing,
    log_level: config.log_level,
  };
}
