// Which batches of one partition are in several lists at once: those of a status and of labels.
//
// Redis could intersect the lists in one command, and would hold everybody up for as long as that takes. So the smallest
// one is walked in slices, newest first, and each slice is looked up in the others. A walk goes by creation time, so what
// is made meanwhile is ahead of it; the count is exact for what was there when it began.
import type { RedisClient } from './script.ts';

/** A batch in a list. */
export interface Place {
  core: string;
  created_ms: number;
}

/** About 0.2 ms of Redis a slice. */
const SLICE = 500;

/** How many batches are in all of `lists`, and the newest `keep` of them, of those behind `after`. */
export async function matchAll(
  client: RedisClient,
  lists: readonly string[],
  keep: number,
  after: Place | null = null,
): Promise<{ count: number; newest: Place[] }> {
  const sizes = await Promise.all(lists.map((key) => client.zcard(key)));
  const smallest = sizes.indexOf(Math.min(...sizes));
  const others = lists.filter((_, i) => i !== smallest);
  const found: { count: number; newest: Place[] } = { count: 0, newest: [] };
  if (sizes[smallest] === 0) return found;
  let from: number | '+inf' = '+inf';
  let skip = 0;
  for (;;) {
    const slice: Place[] = toPlaces(
      await client.zrange(lists[smallest] ?? '', from, '-inf', 'BYSCORE', 'REV', 'LIMIT', skip, SLICE, 'WITHSCORES'),
    );
    for (const place of await inAll(client, others, slice)) {
      found.count += 1;
      if (found.newest.length < keep && (after === null || newestFirst(after, place) < 0)) found.newest.push(place);
    }
    const last = slice.at(-1);
    if (last === undefined || slice.length < SLICE) return found;
    const ties = slice.filter(({ created_ms }) => created_ms === last.created_ms).length;
    skip = from === last.created_ms ? skip + ties : ties;
    from = last.created_ms;
  }
}

/** Those of `places` that are in every one of `lists`. */
async function inAll(client: RedisClient, lists: readonly string[], places: readonly Place[]): Promise<readonly Place[]> {
  if (places.length === 0) return places;
  const cores = places.map(({ core }) => core);
  const scores = await Promise.all(lists.map((key) => client.zmscore(key, ...cores)));
  return places.filter((_, i) => scores.every((of_list) => (of_list[i] ?? null) !== null));
}

/** Members and scores as `WITHSCORES` gives them. */
export function toPlaces(flat: readonly string[]): Place[] {
  const places: Place[] = [];
  for (let i = 0; i < flat.length; i += 2) places.push({ core: flat[i] ?? '', created_ms: Number(flat[i + 1]) });
  return places;
}

/** Newest first, ties by id. */
export function newestFirst(a: Place, b: Place): number {
  if (a.created_ms !== b.created_ms) return b.created_ms - a.created_ms;
  return a.core < b.core ? 1 : a.core > b.core ? -1 : 0;
}
