// How full Redis is, and what follows from it. Redis without room refuses writes, those that finish work among them but for
// scripts that say otherwise; so what brings new work is refused long before, and what has ended makes room.
//
//   75 %   finished batches go before their retention ends, the oldest first
//   80 %   creates and adds are refused (503), and ticks of schedules wait
//   90 %   no excerpts of answers are kept
//
// Early retention begins below the refusal: otherwise a Redis full of finished batches would refuse work until they expire.
// The fullest master counts for all: partitions are spread evenly, so the others are not far behind.
import { monotonicMs } from './base/clock.ts';
import { ApiError } from './base/errors.ts';
import { type LimitedLog, type Log, limitedLog } from './base/log.ts';
import type { Service } from './base/service.ts';
import { redisMemory } from './store/gauges.ts';
import type { RedisClient } from './store/script.ts';

const PURGE_SHARE = 0.75;
const ADMIT_SHARE = 0.8;
const BRIEF_SHARE = 0.9;
const LOOK_MS = 1_000;
/** While nothing moves; new work that asks to be admitted brings the next look forward. */
const LOOK_CALM_MS = 5_000;
const MOVED_SHARE = 0.002;
/** Near the marks it moves fast: what is let go early should not be more than what is needed. */
const LOOK_NEAR_MS = 250;
const NEAR_SHARE = 0.7;
/** Without a limit there is nothing to watch, but for somebody who sets one. */
const LOOK_UNLIMITED_MS = 10_000;
const RETRY_AFTER_S = 5;

export interface MemoryState {
  /** No new work is taken. */
  full: boolean;
  purge: boolean;
  brief: boolean;
}

export interface MemoryWatchOptions {
  client: RedisClient;
  /** Called when it changes. */
  onChange(state: MemoryState): void;
  log: Log;
}

export class MemoryWatch implements Service {
  readonly name = 'memory';
  readonly #options: MemoryWatchOptions;
  readonly #limited_log: LimitedLog;
  #share = 0;
  /** Since the last look work was admitted, or the last two looks saw different shares. */
  #moving = true;
  /** Work was admitted while a look was under way: what it saw may be from before. */
  #admitted = false;
  #looked_ms = 0;
  #limited = false;
  #state: MemoryState = { full: false, purge: false, brief: false };
  #timer: NodeJS.Timeout | null = null;
  #stopped = false;
  #looking: Promise<void> = Promise.resolve();

  constructor(options: MemoryWatchOptions) {
    this.#options = options;
    this.#limited_log = limitedLog(options.log);
  }

  async start(): Promise<void> {
    await this.#look();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#looking;
  }

  get state(): MemoryState {
    return this.#state;
  }

  /** Throws 503 where new work would fill Redis. */
  admit(): void {
    this.#awake();
    if (this.#share < ADMIT_SHARE) return;
    throw new ApiError('unavailable', {}, { message: 'The store is nearly full: no new work is taken.', retry_after_s: RETRY_AFTER_S });
  }

  async #look(): Promise<void> {
    this.#admitted = false;
    try {
      const nodes = await redisMemory(this.#options.client);
      const limited = nodes.filter(({ max_bytes }) => max_bytes > 0);
      const share = Math.max(0, ...limited.map(({ used_bytes, max_bytes }) => used_bytes / max_bytes));
      this.#moving = this.#admitted || limited.length > 0 !== this.#limited || Math.abs(share - this.#share) > MOVED_SHARE;
      this.#limited = limited.length > 0;
      this.#changed(share);
    } catch (error) {
      // What was seen last holds.
      this.#limited_log.warn({ err: error }, 'could not see how full Redis is');
    }
    this.#looked_ms = monotonicMs();
    const limited_ms = this.#share > NEAR_SHARE ? LOOK_NEAR_MS : this.#moving ? LOOK_MS : LOOK_CALM_MS;
    this.#lookIn(this.#limited ? limited_ms : LOOK_UNLIMITED_MS);
  }

  #lookIn(wait_ms: number): void {
    if (this.#stopped) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#looking = this.#look();
    }, wait_ms);
  }

  /** What was calm moves now: from here on the looks are as close as they are while work comes. */
  #awake(): void {
    this.#admitted = true;
    if (this.#moving || !this.#limited) return;
    this.#moving = true;
    // Where there is no timer a look is under way, and what follows it is decided then.
    if (this.#timer !== null) this.#lookIn(Math.max(0, this.#looked_ms + LOOK_MS - monotonicMs()));
  }

  #changed(share: number): void {
    const { log, onChange } = this.#options;
    if (share >= ADMIT_SHARE !== this.#share >= ADMIT_SHARE) {
      if (share >= ADMIT_SHARE) this.#limited_log.error({ share }, 'Redis is nearly full: new work is refused');
      else log.info({ share }, 'Redis has room again: new work is taken');
    }
    this.#share = share;
    const state = { full: share >= ADMIT_SHARE, purge: share >= PURGE_SHARE, brief: share >= BRIEF_SHARE };
    if (state.full === this.#state.full && state.purge === this.#state.purge && state.brief === this.#state.brief) return;
    this.#state = state;
    onChange(state);
  }
}
