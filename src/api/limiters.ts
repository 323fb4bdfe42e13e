// Rate limiters: create, list, read, change, delete, pause, resume, reset, usage.
//
// A limiter lies in a partition of its own, its name and its place in the list in the account's home slot. So a create is
// three steps: the name is reserved, the limiter made, the name confirmed (which lists it). Where a process died between
// two of them, whoever meets what it left does the rest: a reservation whose limiter is there is confirmed, one whose
// limiter is not there for 10 s is given up. Should its maker still be at work (it was stopped for longer than that), its
// confirmation fails, and it takes its limiter back. A delete marks the limiter, then frees the name; a name that still
// leads to a deleted limiter is freed by whoever meets it.
import { ApiError } from '../base/errors.ts';
import { ID_PREFIX, newCore, parseId, partitionOf } from '../base/id.ts';
import { check, type SchemaName } from '../schema/check.ts';
import { timestampMs } from '../schema/formats.ts';
import { configSchema, DEFAULT_TIMEOUTS } from '../schema/limiter.ts';
import type { Limiter, LimiterCreate, LimiterListItem, LimiterListQuery, LimiterPatch, LimiterPause } from '../schema/types.gen.ts';
import { changedNothing, unsure } from '../store/errors.ts';
import * as names from '../store/limiter-names.ts';
import type { LimiterRow } from '../store/limiters.ts';
import * as limiters from '../store/limiters.ts';
import type { Answer, Call, HandlerName } from './call.ts';
import type { ApiContext } from './context.ts';
import { nextCursor, placeIn } from './cursor.ts';
import { whenDurable } from './durable.ts';
import { type Begun, keyedBy, once, onceAs, toldLast } from './idempotency.ts';
import { timestamp } from './present.ts';

/** Longer than a create takes that still has somebody waiting for it. */
const RESERVED_MS = 10_000;
/** What was left behind by others is put right this often in one request. */
const TRIES_MAX = 3;

export async function createLimiter(context: ApiContext, call: Call): Promise<Answer> {
  context.admit();
  const keyed = keyedBy(context, call, 'createLimiter');
  if (keyed === null) {
    const { placement } = context;
    const row = await placement.place(
      () => placement.next(),
      (partition) => make(context, call, newCore(partition, call.now_ms), true),
    );
    return created(context, row);
  }
  // Who does this again makes the same limiter: its id stays with the key.
  const makeOrFind = async ({ known, note: core }: Begun): Promise<Answer> => {
    const before = known ? await limiters.readLimiter(context.client, core) : null;
    return created(context, before?.deleted_ms != null ? before : await make(context, call, core, false));
  };
  return onceAs(context, keyed, newCore(keyed.partition, call.now_ms), makeOrFind, true);
}

async function created(context: ApiContext, row: LimiterRow): Promise<Answer> {
  // Its name lies in the account's home slot.
  return whenDurable(context, partitionOf(row.core), { body: limiterView(row) }, row.account_id);
}

/** Harmless twice for one core. `alone`: nobody else makes this one. Throws 409 where another limiter has the name. */
async function make(context: ApiContext, call: Call, core: string, alone: boolean): Promise<LimiterRow> {
  const { client } = context;
  const { account_id } = call;
  const { name, type, config, description, timeouts, cooldown } = call.body as LimiterCreate;
  await reserve(context, account_id, name, core);
  let row: LimiterRow;
  try {
    row = await limiters.createLimiter(client, {
      core,
      account_id,
      name,
      type,
      config: config as Record<string, number>,
      description: description ?? null,
      timeouts: { ...DEFAULT_TIMEOUTS, ...timeouts },
      cooldown: cooldown ?? 'task',
    });
  } catch (error) {
    // It may be tried in another partition, under another id. Where this fails too the reservation is given up in time.
    if (alone && changedNothing(error)) await names.giveUpName(client, account_id, name, core).catch(() => {});
    throw error;
  }
  try {
    if (await names.confirmName(client, account_id, row)) return row;
    await limiters.deleteLimiter(client, account_id, core);
  } catch (error) {
    // The limiter is there: it is not to be made again elsewhere.
    throw unsure(error);
  }
  throw taken(name);
}

async function reserve(context: ApiContext, account_id: string, name: string, core: string): Promise<void> {
  const { client } = context;
  for (let tries = 1; tries <= TRIES_MAX; tries++) {
    const outcome = await names.reserveName(client, account_id, name, core);
    if (outcome.kind === 'yours') return;
    const { reserved_ms } = outcome;
    const holder = await limiters.readLimiter(client, outcome.core);
    const is_new = reserved_ms !== null && reserved_ms < RESERVED_MS;
    if (is_new && holder?.deleted_ms == null) throw taken(name);
    if (holder !== null && holder.deleted_ms === null) {
      if (reserved_ms !== null) await names.confirmName(client, account_id, holder);
      throw taken(name);
    }
    if (reserved_ms === null) await names.freeName(client, account_id, name, outcome.core);
    else await names.giveUpName(client, account_id, name, outcome.core);
  }
  throw new ApiError('unavailable', {}, { retry_after_s: 1 });
}

function taken(name: string): ApiError {
  return new ApiError('rate_limiter_name_taken', { name });
}

export async function listLimiters(context: ApiContext, call: Call): Promise<Answer> {
  const { limit, offset, cursor } = call.query as unknown as LimiterListQuery;
  const after = placeIn('l', cursor);
  for (let tries = 1; ; tries++) {
    const page = await names.pageOfLimiters(context.client, call.account_id, {
      limit: after === undefined ? limit : limit + 1,
      offset,
      stale_ms: RESERVED_MS,
      after: after ?? null,
    });
    const found = await limiters.readLimiters(context.client, page.cores);
    const rows = found.filter((row): row is LimiterRow => row !== null && row.deleted_ms === null);
    const gone = page.cores.filter((_, i) => found[i]?.deleted_ms !== null);
    if ((gone.length === 0 && page.stale.length === 0) || tries === TRIES_MAX) {
      const shown = rows.slice(0, limit);
      const next = after === undefined ? undefined : page.cores.length > limit ? (shown.at(-1) ?? null) : null;
      return { body: { total: page.total - gone.length, rate_limiters: shown.map(limiterItem), ...nextCursor('l', next) } };
    }
    await Promise.all([
      ...gone.map((core) => names.freeName(context.client, call.account_id, found.find((row) => row?.core === core)?.name ?? '', core)),
      repair(context, call.account_id, page.stale),
    ]);
  }
}

/** Confirms the reservations whose limiters were made, and gives the others up. */
async function repair(context: ApiContext, account_id: string, stale: readonly { core: string; name: string }[]): Promise<void> {
  const cores = stale.map(({ core }) => core);
  const rows = cores.length === 0 ? [] : await limiters.readLimiters(context.client, cores);
  await Promise.all(
    stale.map(async ({ core, name }, i) => {
      const row = rows[i];
      if (row && row.deleted_ms === null) await names.confirmName(context.client, account_id, row);
      else await names.giveUpName(context.client, account_id, name, core);
    }),
  );
}

export async function getLimiter(context: ApiContext, call: Call): Promise<Answer> {
  return { body: limiterView(await visible(context, call)) };
}

/** 404 of the limiter in the path; runs before anything is said of a body. */
export async function limiterExists(context: ApiContext, call: Call): Promise<void> {
  await visible(context, call);
}

async function visible(context: ApiContext, call: Call): Promise<LimiterRow> {
  const row = await own(context, call);
  if (row.deleted_ms !== null) throw missing(call);
  return row;
}

/** The same for what outlives a limiter. */
export async function limiterExisted(context: ApiContext, call: Call): Promise<void> {
  await own(context, call);
}

async function own(context: ApiContext, call: Call): Promise<LimiterRow> {
  const row = await limiters.readLimiter(context.client, coreOf(call));
  if (row === null || row.account_id !== call.account_id) throw missing(call);
  return row;
}

function coreOf(call: Call): string {
  const core = parseId(ID_PREFIX.limiter, call.params['rate_limiter_id'] ?? '');
  if (core === null) throw missing(call);
  return core;
}

function missing(call: Call): ApiError {
  return new ApiError('limiter_not_found', { rate_limiter_id: call.params['rate_limiter_id'] });
}

export async function updateLimiter(context: ApiContext, call: Call): Promise<Answer> {
  const { description, config, timeouts, cooldown } = call.body as LimiterPatch;
  if (config !== undefined) {
    const { type } = await visible(context, call);
    const errors = check(configSchema(type, config) as SchemaName, config, '/config');
    if (errors.length > 0) throw new ApiError('validation_error', { errors });
  }
  const row = await limiters.patchLimiter(context.client, call.account_id, coreOf(call), {
    ...(description === undefined ? {} : { description }),
    ...(config === undefined ? {} : { config: config as Record<string, number> }),
    ...(timeouts === undefined ? {} : { timeouts: { ...DEFAULT_TIMEOUTS, ...timeouts } }),
    ...(cooldown === undefined ? {} : { cooldown }),
  });
  if (row === null) throw missing(call);
  return { body: limiterView(row) };
}

export async function deleteLimiter(context: ApiContext, call: Call): Promise<Answer> {
  const core = coreOf(call);
  const row = (await limiters.deleteLimiter(context.client, call.account_id, core)) ?? null;
  const { name } = row ?? (await own(context, call));
  // Also where it was deleted before: that one may not have come as far as this.
  await names.freeName(context.client, call.account_id, name, core);
  if (row === null) throw missing(call);
  return { body: { deleted: true, id: ID_PREFIX.limiter + core } };
}

export async function getLimiterUsage(context: ApiContext, call: Call): Promise<Answer> {
  const usage = await limiters.readUsage(context.client, call.account_id, coreOf(call));
  if (usage === null) throw missing(call);
  const { next_available_ms, history, ...rest } = usage;
  return {
    body: {
      ...rest,
      next_available_at: next_available_ms === null ? null : timestamp(next_available_ms),
      history: history.map(({ at_ms, ...minute }) => ({ at: timestamp(at_ms), ...minute })),
    },
  };
}

export async function pauseLimiter(context: ApiContext, call: Call): Promise<Answer> {
  const { until } = call.body as LimiterPause;
  const until_ms = until === undefined ? null : timestampMs(until);
  const check = (): void => {
    if (until_ms === null || until_ms > call.now_ms) return;
    throw new ApiError('validation_error', { errors: [{ path: '/until', message: 'must be in the future' }] });
  };
  const pause = (core: string): Promise<LimiterRow | null> => {
    check();
    return limiters.pauseLimiter(context.client, call.account_id, core, until_ms);
  };
  return toldLast(check, () => change(context, call, 'pauseLimiter', pause));
}

export async function resumeLimiter(context: ApiContext, call: Call): Promise<Answer> {
  return change(context, call, 'resumeLimiter', (core) => limiters.resumeLimiter(context.client, call.account_id, core));
}

export async function resetLimiter(context: ApiContext, call: Call): Promise<Answer> {
  return change(context, call, 'resetLimiter', (core) => limiters.resetLimiter(context.client, call.account_id, core));
}

function change(context: ApiContext, call: Call, name: HandlerName, run: (core: string) => Promise<LimiterRow | null>): Promise<Answer> {
  return once(context, call, name, async () => {
    const row = await run(coreOf(call));
    if (row === null) throw missing(call);
    return { body: limiterView(row) };
  });
}

function limiterView(row: LimiterRow): Limiter {
  const { id, name, type, config, created_at } = limiterItem(row);
  return {
    id,
    name,
    type,
    ...(row.description === null ? {} : { description: row.description }),
    config,
    timeouts: row.timeouts,
    ...(row.cooldown === 'task' ? {} : { cooldown: row.cooldown }),
    ...(row.paused ? { paused: true } : {}),
    ...(row.paused_until_ms === null ? {} : { paused_until: timestamp(row.paused_until_ms) }),
    created_at,
    updated_at: timestamp(row.updated_ms),
  };
}

function limiterItem({ core, name, type, config, created_ms }: LimiterRow): LimiterListItem {
  return { id: ID_PREFIX.limiter + core, name, type, config: { ...config }, created_at: timestamp(created_ms) };
}
