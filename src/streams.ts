// Progress streams, wired: the stream threads, and the hub between them and the sockets.
import { extname } from 'node:path';
import { base62 } from './base/id.ts';
import type { Log } from './base/log.ts';
import type { Service } from './base/service.ts';
import type { Config } from './config.ts';
import type { StreamMeter } from './http/streams.ts';
import type { Metrics } from './metrics/registry.ts';
import type { Store } from './store/connect.ts';
import type { Places } from './store/streams.ts';
import { StreamHub } from './streams/hub.ts';
import { ENDS, type FromStreamThread, type StreamEnd } from './streams/messages.ts';
import type { StreamThreadData } from './streams.thread.ts';
import { ThreadPool } from './threads/pool.ts';

export interface StreamService {
  pool: Service;
  hub: StreamHub;
  meter: StreamMeter;
  places: Places & { newName(): string };
}

/** Looks in the time that a place is kept: one may fail. */
const LOOKS_PER_PLACE = 4;

export function makeStreams(config: Config, store: Store, metrics: Metrics, process_id: string, log: Log): StreamService {
  const threads = config.stream_threads;
  const places = { max: config.limit_streams, place_ms: config.stream_place_ms };
  const running = new Set<number>();
  const restarts = metrics.counter('thread_restarts_total', { pool: 'streams' });
  const alive = metrics.gauge('threads', { pool: 'streams' });
  const source = (index: number, life: number): string => `streams/${index}/${life}`;
  const pool = new ThreadPool<StreamThreadData>({
    name: 'streams',
    entry: new URL(`./streams.thread${extname(import.meta.url)}`, import.meta.url),
    threads,
    dataFor: (index) => ({
      index,
      connection: store.connection,
      partitions: store.partitions,
      places,
      look_ms: Math.min(config.sweep_interval_ms, places.place_ms / LOOKS_PER_PLACE),
      log_level: config.log_level,
    }),
    onMessage: (index, life, message) => {
      const heard = message as FromStreamThread;
      if (heard.type === 'metrics') metrics.merge(source(index, life), heard.snapshot);
      else hub.onMessage(index, heard);
    },
    onReady: (index) => {
      running.add(index);
      alive.set(running.size);
      hub.onReady(index);
    },
    onEnd: (index, life) => {
      running.delete(index);
      alive.set(running.size);
      restarts.add();
      metrics.retire(source(index, life));
    },
    log,
  });
  const hub: StreamHub = new StreamHub(threads, (index, message) => pool.post(index, message));
  let names = 0;
  return { pool, hub, meter: meterOf(metrics, hub), places: { ...places, newName: () => `${process_id}.${base62(names++, 8)}` } };
}

function meterOf(metrics: Metrics, hub: StreamHub): StreamMeter {
  const open = metrics.gauge('streams_open', {});
  metrics.beforeSnapshot(() => open.set(hub.count));
  const frames = metrics.counter('stream_frames_total', {});
  const reasons = [...(Object.keys(ENDS) as StreamEnd[]), 'client' as const];
  const closed = new Map(reasons.map((reason) => [reason, metrics.counter('streams_closed_total', { reason })]));
  return { frames: (count) => frames.add(count), closed: (reason) => closed.get(reason)?.add() };
}
