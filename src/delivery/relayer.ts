// Carries messages between partitions for one process: right after the process wrote some, when a pump's tick finds some
// waiting, and again after a back-off for those whose destination failed.
//
//   relay(source) ──▶ nobody at it: run ──▶ all carried over: idle
//        │                          └─────▶ something failed: run again when its destination's back-off ends
//        └── somebody at it: one more run right after, shared by all who asked meanwhile
//
// Two processes at one source are harmless: store/outbox.ts.
import { type Backoff, backoff_ms } from '../base/backoff.ts';
import { monotonicMs } from '../base/clock.ts';
import { type LimitedLog, type Log, limitedLog } from '../base/log.ts';
import type { Service } from '../base/service.ts';
import { NotReplicated } from '../store/errors.ts';
import {
  AWAY_AFTER_MS,
  acknowledge,
  type Failure,
  type RelayOptions,
  readClock,
  receive,
  relay,
  type Slice,
  type Swept,
  sweep,
} from '../store/outbox.ts';
import type { RedisClient } from '../store/script.ts';
import { ServerClocks } from './server-clocks.ts';

/** Where a relayer's numbers go. */
export interface RelayMeter {
  moved(messages: number): void;
  failed(destination: number): void;
  swept(swept: Swept): void;
}

export interface RelayerDeps {
  client: RedisClient;
  meter: RelayMeter;
  log: Log;
  /** Where a replica must have what was handed over before it leaves the source; see RelayOptions. */
  confirm?: RelayOptions['confirm'];
  /** See RelayOptions. */
  keep?: RelayOptions['keep'];
  /** How long a reference is left alone before its lane is asked. */
  away_after_ms?: number;
  backoff?: Backoff;
}

/** What this process knows of one source. */
interface Source {
  running: Promise<void> | null;
  next: Promise<void> | null;
  sweeping: Promise<void> | null;
  timer: NodeJS.Timeout | null;
  /** Slices that were handed over and not acknowledged yet, by destination, each with its mark. */
  carried: Map<number, { slice: Slice; mark: number }>;
  acking: NodeJS.Timeout | null;
  /** Acknowledgements under way. */
  acks: number;
}

interface Trouble {
  failures: number;
  until_ms: number;
}

const BACKOFF: Backoff = { min_ms: 50, max_ms: 5_000 };
/** Something was left that nobody failed at: more than one run may carry, or a kind that this version does not know. */
const LEFT_MS = 250;
/** A destination whose replica was late is not waited for again for so long: what comes next would wait behind that. */
const LATE_MS = 1_000;
/**
 * What is carried right from the reply of the script that wrote it is acknowledged so much later, together with what follows. Until
 * then it goes along with that and is left out at the destination, by the mark.
 */
const ACK_DELAY_MS = 250;
/** And at once where so many wait: a quarter of what a reply brings along at most (lua/lib/outbox.lua), beyond which it takes the longer way. */
const ACK_MESSAGES = 25;

export class Relayer implements Service {
  readonly name = 'relayer';
  readonly #deps: RelayerDeps;
  readonly #log: LimitedLog;
  readonly #sources = new Map<number, Source>();
  /** Destinations that failed, for all sources alike. */
  readonly #troubles = new Map<number, Trouble>();
  /** Until when the replicas of destinations are not waited for. */
  readonly #late = new Map<number, number>();
  readonly #clocks: ServerClocks;
  #stopped = false;

  constructor(deps: RelayerDeps) {
    this.#deps = deps;
    this.#log = limitedLog(deps.log);
    this.#clocks = new ServerClocks((partition) => readClock(deps.client, partition));
  }

  async start(): Promise<void> {}

  /** Begins nothing more and waits for what is under way. What waits is carried over by others. */
  async stop(deadline_ms: number): Promise<void> {
    this.#stopped = true;
    const sources = [...this.#sources.values()];
    for (const { timer } of sources) if (timer !== null) clearTimeout(timer);
    let late: NodeJS.Timeout | undefined;
    const deadline = new Promise<void>((done) => {
      late = setTimeout(done, deadline_ms);
    });
    const ended = Promise.all(sources.flatMap(({ running, next, sweeping }) => [running, next, sweeping]));
    await Promise.race([ended, deadline]);
    await Promise.race([Promise.all([...this.#sources].map(([source, state]) => this.#acknowledge(source, state))), deadline]);
    clearTimeout(late);
  }

  /**
   * Resolves when everything that waited in the outbox of `source` at the time of the call has been handed over, or has
   * failed and will be tried again. Never rejects: what waits is safe where it is.
   */
  relay(source: number): Promise<void> {
    const state = this.#stateOf(source);
    if (this.#stopped) return Promise.resolve();
    if (state.running === null) {
      state.running = this.#run(source, state);
      return state.running;
    }
    // The run under way may have read the outbox before the caller wrote to it.
    state.next ??= state.running.then(() => {
      state.next = null;
      return this.relay(source);
    });
    return state.next;
  }

  /**
   * Hands over what a script's reply brought along: for each destination all that waits there. Where somebody is at this
   * source, or a destination is in trouble, the usual way is taken. Never rejects.
   */
  async carry(source: number, slices: readonly Slice[]): Promise<void> {
    const state = this.#stateOf(source);
    if (this.#stopped) return;
    if (state.running !== null) return this.relay(source);
    const moves = slices.map(async (slice) => {
      if (this.#troubles.has(slice.destination)) return this.relay(source);
      try {
        const { client, keep } = this.#deps;
        const { mark, done, wrote } = await receive(client, source, slice, keep, this.#clocks);
        if (done < slice.messages.length) return this.relay(source);
        state.carried.set(slice.destination, { slice, mark });
        if (slice.messages.length >= ACK_MESSAGES && state.acks === 0) void this.#acknowledge(source, state);
        else state.acking ??= setTimeout(() => void this.#acknowledge(source, state), ACK_DELAY_MS);
        if (wrote) void this.relay(slice.destination);
      } catch {
        return this.relay(source);
      }
    });
    await Promise.all(moves);
  }

  async #acknowledge(source: number, state: Source): Promise<void> {
    if (state.acking !== null) clearTimeout(state.acking);
    state.acking = null;
    const carried = [...state.carried.values()];
    state.carried.clear();
    state.acks += 1;
    const { client, meter } = this.#deps;
    const acks = carried.map(async ({ slice, mark }) => {
      try {
        await this.#confirm(slice.destination);
        const more = await acknowledge(client, source, slice, mark);
        meter.moved(slice.messages.length);
        if (more && !state.carried.has(slice.destination)) void this.relay(source);
      } catch {
        void this.relay(source);
      }
    });
    await Promise.all(acks);
    state.acks -= 1;
  }

  /** Asks lanes about what `source` has had away for long, and relays what that brings up. Never rejects. */
  sweep(source: number): Promise<void> {
    const state = this.#stateOf(source);
    if (this.#stopped) return Promise.resolve();
    state.sweeping ??= this.#sweep(source).finally(() => {
      state.sweeping = null;
    });
    return state.sweeping;
  }

  async #run(source: number, state: Source): Promise<void> {
    if (state.timer !== null) clearTimeout(state.timer);
    state.timer = null;
    const now_ms = monotonicMs();
    const except = [...this.#troubles].filter(([, { until_ms }]) => until_ms > now_ms).map(([destination]) => destination);
    let again_ms: number | null = null;
    try {
      const { client, keep } = this.#deps;
      const reply = await relay(client, source, {
        except,
        confirm: (destination) => this.#confirm(destination),
        clocks: this.#clocks,
        ...(keep === undefined ? {} : { keep }),
      });
      for (const destination of reply.wrote) if (destination !== source) void this.relay(destination);
      if (reply.moved > 0) this.#deps.meter.moved(reply.moved);
      for (const failure of reply.failed) this.#failed(failure);
      for (const destination of reply.reached) this.#troubles.delete(destination);
      const left = [...except, ...reply.failed.map(({ destination }) => destination)];
      if (left.length > 0) again_ms = this.#troubleEndsMs(left);
      if (reply.waiting) again_ms = LEFT_MS;
      if (reply.wrote.includes(source)) again_ms = 0;
    } catch (error) {
      this.#log.warn({ err: error, partition: source }, 'an outbox could not be read and will be tried again');
      again_ms = (this.#deps.backoff ?? BACKOFF).max_ms;
    }
    state.running = null;
    if (again_ms !== null && !this.#stopped) state.timer = setTimeout(() => void this.relay(source), again_ms).unref();
  }

  async #sweep(source: number): Promise<void> {
    try {
      const swept = await sweep(this.#deps.client, source, { after_ms: this.#deps.away_after_ms ?? AWAY_AFTER_MS });
      this.#deps.meter.swept(swept);
      for (const { destination, error } of swept.failed) {
        this.#log.warn({ err: error, partition: source, destination }, 'a lane could not be asked and will be asked again');
      }
      if (swept.resent > 0) {
        this.#log.warn({ partition: source, references: swept.resent }, 'lanes did not know references and are told again');
        await this.relay(source);
      }
    } catch (error) {
      this.#log.warn({ err: error, partition: source }, 'what is away could not be read and will be tried again');
    }
  }

  async #confirm(destination: number): Promise<void> {
    const now_ms = monotonicMs();
    if ((this.#late.get(destination) ?? 0) > now_ms) throw new NotReplicated('its replica was late a moment ago');
    try {
      await this.#deps.confirm?.(destination);
      this.#late.delete(destination);
    } catch (error) {
      if (error instanceof NotReplicated) this.#late.set(destination, monotonicMs() + LATE_MS);
      throw error;
    }
  }

  #failed({ destination, error }: Failure): void {
    const failures = (this.#troubles.get(destination)?.failures ?? 0) + 1;
    const wait_ms = backoff_ms(failures, this.#deps.backoff ?? BACKOFF, Math.random);
    this.#troubles.set(destination, { failures, until_ms: monotonicMs() + wait_ms });
    this.#deps.meter.failed(destination);
    this.#log.warn({ err: error, destination }, 'messages to a partition wait');
  }

  /** Until the first of these destinations is tried again. Of others what waited may be carried by others, and their trouble stays in the books. */
  #troubleEndsMs(destinations: readonly number[]): number {
    const now_ms = monotonicMs();
    const ends = destinations.map((destination) => Math.ceil(Math.max(0, (this.#troubles.get(destination)?.until_ms ?? 0) - now_ms)));
    return Math.min((this.#deps.backoff ?? BACKOFF).max_ms, ...ends);
  }

  #stateOf(source: number): Source {
    let state = this.#sources.get(source);
    if (state === undefined) {
      state = { running: null, next: null, sweeping: null, timer: null, carried: new Map(), acking: null, acks: 0 };
      this.#sources.set(source, state);
    }
    return state;
  }
}
