// Who works on this store: every process says that it is alive, and sees who else is.
import { keys } from './keys.ts';
import type { RedisClient } from './script.ts';
import { memberBeat } from './scripts.gen.ts';

/** What threads of processes do; each group shares the partitions by itself. */
export type Group = 'callbacks' | 'cron';

export interface Member {
  id: string;
  /** Threads it runs. */
  threads: number;
}

export interface Seen {
  /** Those that live. */
  members: Record<Group, Member[]>;
  /** In how many ms the first of the others has been silent for too long, unless it is heard meanwhile; Infinity where there are none. */
  left_ms: number;
}

/** Says that process `id` is alive with so many threads of each group (0: it leaves that one; an `id` of '' only looks), and returns all that are. It counts as heard until so long ahead. */
export async function beat(
  client: RedisClient,
  id: string,
  threads: Readonly<Record<Group, number>>,
  silence_ms: number,
  ahead_ms = 0,
): Promise<Seen> {
  const [left = '', ...flat] = await memberBeat.call(
    client,
    { members: keys.members('callbacks'), crons: keys.members('cron') },
    { id, ...threads, silence_ms, ahead_ms },
  );
  const members: Record<Group, Member[]> = { callbacks: [], cron: [] };
  for (let i = 0; i < flat.length; i += 3) {
    for (const [k, group] of (['callbacks', 'cron'] as const).entries()) {
      const count = Number(flat[i + 1 + k]);
      if (count > 0) members[group].push({ id: flat[i] ?? '', threads: count });
    }
  }
  return { members, left_ms: left === '' ? Number.POSITIVE_INFINITY : Number(left) };
}
