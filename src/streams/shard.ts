// A stream thread's work: the watched batches of its partitions, one subscriber to their hints, one Redis client.

import { partitionOf } from '../base/id.ts';
import { type LimitedLog, type Log, limitedLog } from '../base/log.ts';
import type { Hints } from '../store/hints.ts';
import { keys } from '../store/keys.ts';
import { readStopped } from '../store/listing.ts';
import type { RedisClient } from '../store/script.ts';
import { freePlaces, lookAt, type Places, parseHint, readResults } from '../store/streams.ts';
import type { FromStreamThread, ToStreamThread } from './messages.ts';
import { type Views, Watch, type WatchHost } from './watch.ts';

export interface ShardDeps {
  client: RedisClient;
  hints: Hints;
  views: Views;
  places: Places;
  /** Time between two looks at a watched batch. */
  look_ms: number;
  post(message: FromStreamThread, moved: ArrayBuffer[]): void;
  log: Log;
}

/** Hints go on for so many looks after the last one that was made. */
const LOOKS_PER_WATCH = 3;
/** Bytes of frames on their way to the sockets; beyond them frames are merged instead. */
const ON_THE_WAY_BYTES_MAX = 8 * 1024 * 1024;

export class StreamShard {
  readonly #deps: ShardDeps;
  readonly #log: LimitedLog;
  readonly #watches = new Map<string, Watch>();
  #on_the_way_bytes = 0;

  constructor(deps: ShardDeps) {
    this.#deps = deps;
    this.#log = limitedLog(deps.log);
  }

  get watched(): number {
    return this.#watches.size;
  }

  hear(message: Exclude<ToStreamThread, { type: 'stop' }>): void {
    switch (message.type) {
      case 'open':
        return this.#open(message);
      case 'close':
        return this.#close(message.core, message.stream);
      case 'taken':
        this.#on_the_way_bytes -= message.bytes;
    }
  }

  /** Frees all places. */
  async stop(): Promise<void> {
    const watches = [...this.#watches.values()];
    this.#watches.clear();
    for (const watch of watches) watch.close();
    await Promise.allSettled(watches.map(({ core, streams }) => freePlaces(this.#deps.client, core, streams)));
  }

  /** Hints of this channel may have been lost. */
  heardAgain(channel: string): void {
    for (const watch of this.#watches.values()) if (channelOf(watch.core) === channel) void watch.look();
  }

  #open({ core, stream, tasks, behind }: Extract<ToStreamThread, { type: 'open' }>): void {
    const known = this.#watches.get(core);
    const watch = known ?? new Watch(core, this.#hostOf(core));
    watch.open(stream, tasks, behind);
    if (known !== undefined) return void watch.look();
    this.#watches.set(core, watch);
    // Unconfirmed after two seconds, it goes on with looks alone.
    void this.#deps.hints.subscribe(channelOf(core), (text) => watch.hint(parseHint(text))).then(() => watch.look());
  }

  #close(core: string, stream: string): void {
    this.#watches.get(core)?.leave(stream);
    this.#gone(core, [stream], true);
  }

  #gone(core: string, streams: readonly string[], freed: boolean): void {
    // What fails here frees itself when the place ends.
    if (freed) freePlaces(this.#deps.client, core, streams).catch((error: unknown) => this.#failed(core, error));
    const watch = this.#watches.get(core);
    if (watch === undefined || watch.streams.length > 0) return;
    watch.close();
    this.#watches.delete(core);
    this.#deps.hints.unsubscribe(channelOf(core));
  }

  #failed(core: string, error: unknown): void {
    this.#log.warn({ err: error, partition: partitionOf(core) }, 'a watched batch could not be read and will be read again');
  }

  #hostOf(watched: string): WatchHost {
    const { client, places, look_ms, views, post } = this.#deps;
    const watch_ms = LOOKS_PER_WATCH * look_ms;
    return {
      views,
      look_ms,
      post,
      look: (core, tasks, streams) => lookAt(client, core, { ...places, watch_ms, tasks, streams }),
      results: (batch, indexes) => readResults(client, batch, indexes),
      stopped: (batch, max) => readStopped(client, batch, max),
      sent: (bytes) => {
        this.#on_the_way_bytes += bytes;
        return this.#on_the_way_bytes < ON_THE_WAY_BYTES_MAX;
      },
      failed: (core, error) => this.#failed(core, error),
      gone: (streams, freed) => this.#gone(watched, streams, freed),
    };
  }
}

function channelOf(core: string): string {
  return keys.progress(partitionOf(core), core);
}
