// Rate limiters: what is stored of one, and the scripts that change it. A limiter lies with its queue (its lane) in the
// partition that its id names.
import type { LimiterType } from '../schema/limiters/kinds.ts';
import type { LimiterConfig } from './limiter-machines.ts';
import type { RedisClient } from './script.ts';

/** Seconds. */
export interface Timeouts {
  queue_timeout: number;
  validity_timeout: number;
}

/** What a 429 or 503 with Retry-After makes wait: its task, or all that wait at the limiter. */
export type Cooldown = 'task' | 'limiter';

export interface NewLimiter {
  /** A limiter id without its prefix, made by newCore. */
  core: string;
  account_id: string;
  name: string;
  type: LimiterType;
  /** Checked against its kind. */
  config: LimiterConfig;
  /** null: none. */
  description: string | null;
  timeouts: Timeouts;
  cooldown: Cooldown;
}

export interface LimiterRow extends NewLimiter {
  created_ms: number;
  updated_ms: number;
  /** null while it lives; a deleted one is kept for 30 days for its usage. */
  deleted_ms: number | null;
  paused: boolean;
  /** When the pause ends by itself; null where it does not, or there is none. */
  paused_until_ms: number | null;
}

/** What is given is replaced whole; `description: null` takes it away. */
export interface LimiterPatch {
  description?: string | null;
  config?: LimiterConfig;
  timeouts?: Timeouts;
  cooldown?: Cooldown;
}

/** Counts of tasks, but for `available`, which is in units. */
export interface Usage {
  queued: number;
  /** Slots in use; 0 for kinds that do not follow their tasks. */
  running: number;
  granted_last_minute: number;
  throttled_last_minute: number;
  /** Units that could be granted now; null where nothing limits, after a deletion. */
  available: number | null;
  /** When a unit is free again; null where one is free, or where no time is known. */
  next_available_ms: number | null;
  /** By the minute, oldest first, 60 of them. */
  history: { at_ms: number; granted: number; queued_max: number }[];
  /** By the day (UTC), oldest first, 30 of them. */
  days: { date: string; granted: number; throttled: number; expired: number }[];
}

/** What one call of `grant` did to one lane. */
export interface LaneGranted {
  lane: string;
  type: LimiterType | null;
  granted: number;
  expired: number;
  /** Slots whose holders' leases ran out. */
  reclaimed: number;
  waiting: number;
  /** Time in the queue, pauses left out, and how many tasks waited for it. */
  waits: { wait_ms: number; tasks: number }[];
}

export interface Granted {
  now_ms: number;
  /** When the next lane is to be looked at; null where none is. */
  next_ms: number | null;
  /** Whether more can be done right now. */
  more: boolean;
  /** Whether messages were written: relay them. */
  wrote: boolean;
  lanes: LaneGranted[];
}

/** Creates it, or finds it created: harmless twice with the same core. */
export declare function createLimiter(client: RedisClient, limiter: NewLimiter): Promise<LimiterRow>;
/** null where there is none. Deleted ones are found, with `deleted_ms`; whose it is the caller checks by `account_id`. */
export declare function readLimiter(client: RedisClient, core: string): Promise<LimiterRow | null>;
/** In the order of `cores`. */
export declare function readLimiters(client: RedisClient, cores: readonly string[]): Promise<(LimiterRow | null)[]>;
/** null where the account has no such limiter, or it was deleted; as all that follow. */
export declare function patchLimiter(client: RedisClient, account_id: string, core: string, patch: LimiterPatch): Promise<LimiterRow | null>;
export declare function deleteLimiter(client: RedisClient, account_id: string, core: string): Promise<LimiterRow | null>;
/** `until_ms` null: until it is resumed. */
export declare function pauseLimiter(client: RedisClient, account_id: string, core: string, until_ms: number | null): Promise<LimiterRow | null>;
export declare function resumeLimiter(client: RedisClient, account_id: string, core: string): Promise<LimiterRow | null>;
/** Clears used units; never the slots of running tasks. */
export declare function resetLimiter(client: RedisClient, account_id: string, core: string): Promise<LimiterRow | null>;
/** Also of a deleted one, for 30 days. */
export declare function readUsage(client: RedisClient, account_id: string, core: string): Promise<Usage | null>;
/** Grants what lanes of the partition can grant now, within the bounds. */
export declare function grant(client: RedisClient, partition: number, bounds?: { lanes_max?: number; tasks_max?: number }): Promise<Granted>;
