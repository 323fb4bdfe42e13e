// Rate limiters: what is stored of one, and the scripts that change it. A limiter lies with its queue (its lane) in the
// partition that its id names.
import { partitionOf } from '../base/id.ts';
import { LIMITER_KINDS, type LimiterType } from '../schema/limiters/kinds.ts';
import { keys } from './keys.ts';
import { type LimiterConfig, machineOf } from './limiter-machines.ts';
import type { RedisClient } from './script.ts';
import { limiterCreate, limiterDelete, limiterPatch, limiterPause, limiterRead, limiterReset, limiterResume } from './scripts.gen.ts';

export { readUsage, type Usage } from './limiter-usage.ts';

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

/** Creates it, or finds it created: harmless twice with the same core. */
export async function createLimiter(client: RedisClient, limiter: NewLimiter): Promise<LimiterRow> {
  const { core, account_id: account, name, type, description } = limiter;
  const fields = [
    'name',
    name,
    'type',
    type,
    'kind',
    LIMITER_KINDS[type].letter,
    'description',
    descriptionText(description),
    ...toFields(type, limiter),
  ];
  const row = toRow(core, await limiterCreate.call(client, meta(core), { core, account, fields }));
  if (row === null) throw new Error(`the id ${core} is another account's`);
  return row;
}

/** null where there is none. Deleted ones are found, with `deleted_ms`; whose it is the caller checks by `account_id`. */
export async function readLimiter(client: RedisClient, core: string): Promise<LimiterRow | null> {
  return toRow(core, await limiterRead.call(client, meta(core), { core }));
}

/** In the order of `cores`. */
export function readLimiters(client: RedisClient, cores: readonly string[]): Promise<(LimiterRow | null)[]> {
  return Promise.all(cores.map((core) => readLimiter(client, core)));
}

/** null where the account has no such limiter, or it was deleted; as all that follow. */
export async function patchLimiter(client: RedisClient, account_id: string, core: string, patch: LimiterPatch): Promise<LimiterRow | null> {
  // A limiter's type never changes, and what a config means hangs on it.
  const row = await readLimiter(client, core);
  if (row === null) return null;
  const fields = toFields(row.type, patch);
  if (patch.description !== undefined) fields.push('description', descriptionText(patch.description));
  return toRow(core, await limiterPatch.call(client, meta(core), { core, account: account_id, fields }));
}

export async function deleteLimiter(client: RedisClient, account_id: string, core: string): Promise<LimiterRow | null> {
  return toRow(core, await limiterDelete.call(client, meta(core), { core, account: account_id }));
}

/** `until_ms` null: until it is resumed. */
export async function pauseLimiter(
  client: RedisClient,
  account_id: string,
  core: string,
  until_ms: number | null,
): Promise<LimiterRow | null> {
  const args = { core, account: account_id, until_ms: until_ms === null ? 'inf' : String(until_ms) };
  return toRow(core, await limiterPause.call(client, meta(core), args));
}

/** Ends a pause, and a cool-down that a target has asked for. */
export async function resumeLimiter(client: RedisClient, account_id: string, core: string): Promise<LimiterRow | null> {
  return toRow(core, await limiterResume.call(client, meta(core), { core, account: account_id }));
}

/** Clears used units; never the slots of running tasks. */
export async function resetLimiter(client: RedisClient, account_id: string, core: string): Promise<LimiterRow | null> {
  return toRow(core, await limiterReset.call(client, meta(core), { core, account: account_id }));
}

function meta(core: string): { meta: string } {
  return { meta: keys.partition(partitionOf(core)) };
}

/** JSON, so that an empty one is not none. */
function descriptionText(description: string | null): string {
  return description === null ? '' : JSON.stringify(description);
}

/** Names and values for the hash, of what is given. */
function toFields(type: LimiterType, { config, timeouts, cooldown }: LimiterPatch): (string | number)[] {
  const fields: (string | number)[] = [];
  if (config !== undefined) fields.push('config', JSON.stringify(config), ...Object.entries(machineOf(type, config)).flat());
  if (timeouts !== undefined) fields.push('queue_s', timeouts.queue_timeout, 'valid_s', timeouts.validity_timeout);
  if (cooldown !== undefined) fields.push('cooldown', cooldown === 'limiter' ? 1 : 0);
  return fields;
}

/** A record as lua/lib/record.lua replies it. */
function toRow(core: string, reply: readonly string[]): LimiterRow | null {
  const [account_id, name, type, config, description, queue_s, valid_s, cooldown, created, updated, deleted, paused] = reply;
  if (account_id === undefined || name === undefined || type === undefined || config === undefined) return null;
  return {
    core,
    account_id,
    name,
    // Written by createLimiter only.
    type: type as LimiterType,
    config: JSON.parse(config) as LimiterConfig,
    description: description === '' || description === undefined ? null : (JSON.parse(description) as string),
    timeouts: { queue_timeout: Number(queue_s), validity_timeout: Number(valid_s) },
    cooldown: cooldown === '1' ? 'limiter' : 'task',
    created_ms: Number(created),
    updated_ms: Number(updated),
    deleted_ms: deleted === '' ? null : Number(deleted),
    paused: paused !== '',
    paused_until_ms: paused === '' || paused === 'inf' ? null : Number(paused),
  };
}

/** Those of these limiters that the account has no longer. */
export async function deletedOf<T extends { lane: string }>(client: RedisClient, account_id: string, lanes: readonly T[]): Promise<T[]> {
  const rows = await readLimiters(
    client,
    lanes.map(({ lane }) => lane),
  );
  return lanes.filter((_, i) => rows[i]?.account_id !== account_id || rows[i]?.deleted_ms !== null);
}
