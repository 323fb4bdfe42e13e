// From the names that tasks give to the limiters they mean. A task holds the limiter's id from then on, so that a new
// limiter of the same name never takes over old tasks.
//
// A body of many tasks is prepared without Redis, perhaps in another thread, so the names are looked for in its bytes
// first. What is found there may be no name at all (a payload can say anything), and a name may be missed (JSON can spell
// it with escapes, and the search has a bound); the preparation tells which of its names nobody looked up.
import { ApiError, type Fault } from '../base/errors.ts';
import { costMax, letterOf } from '../schema/limiters/kinds.ts';
import type { TaskInput } from '../schema/types.gen.ts';
import { coresOfNames } from '../store/limiter-names.ts';
import { readLimiters } from '../store/limiters.ts';
import type { RedisClient } from '../store/script.ts';

/** A limiter as a task needs it. */
export interface KnownLimiter {
  /** Its id without the prefix. */
  core: string;
  /** Of its kind. */
  letter: string;
  /** The most that a task may cost; null where all cost one unit. */
  cost_max: number | null;
}

/** By name; null where the account has no limiter of that name. A name that is not in it was not looked up. */
export type LimitersByName = ReadonlyMap<string, KnownLimiter | null>;

export const NO_LIMITERS: LimitersByName = new Map();

/** Looks names up: one read of the names, and one of each limiter. */
export async function resolveLimiters(client: RedisClient, account_id: string, names: Iterable<string>): Promise<LimitersByName> {
  const wanted = [...new Set(names)];
  const found = new Map<string, KnownLimiter | null>(wanted.map((name) => [name, null]));
  if (wanted.length === 0) return found;
  const cores = await coresOfNames(client, account_id, wanted);
  const held = wanted.flatMap((name, i) => (cores[i] ? [{ name, core: cores[i] }] : []));
  const rows =
    held.length === 0
      ? []
      : await readLimiters(
          client,
          held.map(({ core }) => core),
        );
  for (const [i, { name, core }] of held.entries()) {
    const row = rows[i];
    if (!row || row.account_id !== account_id || row.deleted_ms !== null) continue;
    found.set(name, { core, letter: letterOf(row.type), cost_max: costMax(row.type, row.config) });
  }
  return found;
}

export type LimiterRefusal =
  | { row: 'rate_limiter_not_found'; rate_limiter: string; fault: Fault }
  | { row: 'validation_error'; fault: Fault };

/** What is wrong with the limiter that a task names, null where nothing is. `path` is the pointer of the task. */
export function limiterRefusal(input: TaskInput, path: string, limiters: LimitersByName): LimiterRefusal | null {
  const { rate_limiter, points_cost = 1 } = input;
  if (rate_limiter === undefined) return null;
  const limiter = limiters.get(rate_limiter) ?? null;
  if (limiter === null) {
    const fault = { path: `${path}/rate_limiter`, message: 'no rate limiter has this name' };
    return { row: 'rate_limiter_not_found', rate_limiter, fault };
  }
  if (limiter.cost_max === null || points_cost <= limiter.cost_max) return null;
  const message = `must be at most ${limiter.cost_max}, the capacity of the rate limiter`;
  return { row: 'validation_error', fault: { path: `${path}/points_cost`, message } };
}

/** The refusal of a request, with all tasks of it that have the same trouble. */
export function limiterError(first: LimiterRefusal, all: readonly LimiterRefusal[]): ApiError {
  const errors = all.filter(({ row }) => row === first.row).map(({ fault }) => fault);
  if (first.row === 'validation_error') return new ApiError('validation_error', { errors });
  return new ApiError('rate_limiter_not_found', { rate_limiter: first.rate_limiter, errors });
}

/** What is looked at: the search must not hold up the front door, and tasks of one body mostly name the same few limiters. */
const SEARCHED_BYTES_MAX = 262_144;
const OCCURRENCES_MAX = 1_000;
const NAME_LENGTH_MAX = 64;
const FIELD = Buffer.from('"rate_limiter"');
const QUOTE = 0x22;
const COLON = 0x3a;

/** Texts that look like the names of limiters in a body that may be anything at all. */
export function namesIn(bytes: Uint8Array): Set<string> {
  const body = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.byteLength, SEARCHED_BYTES_MAX));
  const names = new Set<string>();
  let at = body.indexOf(FIELD);
  for (let i = 0; i < OCCURRENCES_MAX && at >= 0; i++) {
    const colon = skipSpace(body, at + FIELD.length);
    const start = skipSpace(body, colon + 1) + 1;
    const end = body.indexOf(QUOTE, start);
    if (body[colon] === COLON && body[start - 1] === QUOTE && end > start && end - start <= NAME_LENGTH_MAX) {
      names.add(body.toString('latin1', start, end));
    }
    at = body.indexOf(FIELD, start);
  }
  return names;
}

function skipSpace(body: Buffer, from: number): number {
  let at = from;
  for (; at < body.length; at++) {
    const byte = body[at];
    if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) break;
  }
  return at;
}
