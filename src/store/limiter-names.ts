// Which limiter of an account has which name, and the list of them: in the account's home slot, while each limiter lies
// in a partition of its own. How the two are kept together is in api/limiters.ts.
import { keys } from './keys.ts';
import type { Place } from './matching.ts';
import type { RedisClient } from './script.ts';
import { namesConfirm, namesFree, namesList, namesReserve } from './scripts.gen.ts';

/** Names in one read. */
const NAMES_MAX = 1_000;

/** `reserved_ms`: how long ago the holder reserved the name; null where it has confirmed it. */
export type Reservation = { kind: 'yours' } | { kind: 'held'; core: string; reserved_ms: number | null };

/** Takes a name for a limiter that is about to be made. */
export async function reserveName(client: RedisClient, account_id: string, name: string, core: string): Promise<Reservation> {
  const [held, reserved_ms] = await namesReserve.call(
    client,
    { names: keys.limiterNames(account_id), reserved: keys.limiterReserved(account_id) },
    { name, core },
  );
  return held === '' ? { kind: 'yours' } : { kind: 'held', core: held, reserved_ms: reserved_ms < 0 ? null : reserved_ms };
}

/** Lists a limiter that was made. False where its name was taken over meanwhile. */
export async function confirmName(
  client: RedisClient,
  account_id: string,
  limiter: { name: string; core: string; created_ms: number },
): Promise<boolean> {
  const { name, core, created_ms } = limiter;
  return (await namesConfirm.call(client, keysOf(account_id), { name, core, created_ms })) === 1;
}

/** Gives the name of a deleted limiter back, where it still has it, and unlists it. `name` is '' where it is not known. */
export async function freeName(client: RedisClient, account_id: string, name: string, core: string): Promise<void> {
  await namesFree.call(client, keysOf(account_id), { name, core, confirmed: 1 });
}

/** Gives up a reservation; changes nothing where it was confirmed meanwhile. */
export async function giveUpName(client: RedisClient, account_id: string, name: string, core: string): Promise<void> {
  await namesFree.call(client, keysOf(account_id), { name, core, confirmed: 0 });
}

function keysOf(account_id: string): { names: string; reserved: string; list: string } {
  return { names: keys.limiterNames(account_id), reserved: keys.limiterReserved(account_id), list: keys.limiterList(account_id) };
}

/** The limiter of each name, null where there is none; one that has a name may still be in the making, or deleted. */
export async function coresOfNames(client: RedisClient, account_id: string, names: readonly string[]): Promise<(string | null)[]> {
  const key = keys.limiterNames(account_id);
  const slices: Promise<(string | null)[]>[] = [];
  for (let i = 0; i < names.length; i += NAMES_MAX) slices.push(client.hmget(key, ...names.slice(i, i + NAMES_MAX)));
  return (await Promise.all(slices)).flat();
}

export interface NamePage {
  total: number;
  cores: string[];
  /** Reservations older than `stale_ms`; at most 100. */
  stale: { core: string; name: string }[];
}

/** A page of an account's limiters, newest first, ties by id. */
export async function pageOfLimiters(
  client: RedisClient,
  account_id: string,
  page: { limit: number; offset: number; stale_ms: number; after?: Place | null },
): Promise<NamePage> {
  const [total, stale, cores] = await namesList.call(
    client,
    { reserved: keys.limiterReserved(account_id), list: keys.limiterList(account_id) },
    {
      limit: page.limit,
      offset: page.offset,
      stale_ms: page.stale_ms,
      after_ms: String(page.after?.created_ms ?? ''),
      after: page.after?.core ?? '',
    },
  );
  const reserved = stale.map((member) => {
    const [core = '', name = ''] = member.split(' ');
    return { core, name };
  });
  return { total, cores, stale: reserved };
}
