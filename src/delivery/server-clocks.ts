// What the clocks of a Cluster's masters tell, as a relayer hears it. A grant that goes from a partition of one to a partition of another is
// dated by the clock of the first, and by that it is judged how late its starts are.
import { type Clock, monotonicMs } from '../base/clock.ts';
import { endsWithin } from '../base/timing.ts';
import type { Clocks, Slice } from '../store/outbox.ts';
import { PartitionClock } from './partition-clock.ts';

/** A start is told to its limiter where it is later than this (late-starts.ts), so a clock need not be known better. */
const DOUBT_MS_MAX = 3;
/** On a busy machine a single answer may take long; of so many the soonest counts. */
const ASK_MAX = 3;
/** Nobody gets closer by asking again where the last answer came this much as soon as the one before. */
const NARROWER = 0.75;
/** A grant does not wait longer for a clock: it has half a second. What is answered later is for the next. */
const WAIT_MS_MAX = 50;
/** A µs, in ms. */
const US_MS = 0.001;

interface Server {
  clock: PartitionClock;
  /** How well it was known after it was asked last: the way there and back is in that. */
  reached_ms: number;
  asking: Promise<void> | null;
}

export class ServerClocks implements Clocks {
  readonly #ask: (partition: number) => Promise<number>;
  readonly #monotonic: Clock;
  readonly #servers = new Map<string, Server>();

  /** `ask`: the clock of the server that has a partition, in ms. */
  constructor(ask: (partition: number) => Promise<number>, monotonic: Clock = monotonicMs) {
    this.#ask = ask;
    this.#monotonic = monotonic;
  }

  /** Asks the server, if it was not heard of for a second or two, or never. Never rejects. */
  async ahead_ms({ destination, read_ms, source_ms }: Slice, name: string): Promise<number | null> {
    const server = this.#serverOf(name);
    if (server.clock.doubt_ms > server.reached_ms + DOUBT_MS_MAX) {
      server.asking ??= this.#learn(server, destination).finally(() => {
        server.asking = null;
      });
      await endsWithin(server.asking, WAIT_MS_MAX);
    }
    // The source's was known to be so far ahead of ours, at least, when the messages were read.
    return server.clock.known ? server.clock.ahead_ms - (source_ms - read_ms) : null;
  }

  heard(name: string, now_ms: number, asked_ms: number): void {
    this.#serverOf(name).clock.heard(now_ms, asked_ms, US_MS);
  }

  async #learn(server: Server, destination: number): Promise<void> {
    const { clock } = server;
    for (let asked = 0; asked < ASK_MAX; asked++) {
      const before_ms = clock.doubt_ms;
      const asked_ms = this.#monotonic();
      try {
        clock.heard(await this.#ask(destination), asked_ms, US_MS);
      } catch {
        return; // It answers nothing else either, and whoever hands over is told.
      }
      server.reached_ms = clock.doubt_ms;
      if (server.reached_ms <= DOUBT_MS_MAX || server.reached_ms > before_ms * NARROWER) return;
    }
  }

  #serverOf(name: string): Server {
    let server = this.#servers.get(name);
    if (server === undefined) {
      server = { clock: new PartitionClock(this.#monotonic), reached_ms: 0, asking: null };
      this.#servers.set(name, server);
    }
    return server;
  }
}
