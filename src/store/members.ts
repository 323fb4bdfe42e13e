// Who works on this store: every process says that it is alive, and sees who else is.
import { keys } from './keys.ts';
import type { RedisClient } from './script.ts';
import { memberBeat } from './scripts.gen.ts';

export interface Member {
  id: string;
  /** Threads it runs. */
  threads: number;
}

/** Says that process `id` is alive with so many threads (0: it leaves) and returns all that are; of those that make callbacks, or of a `group`. */
export async function beat(client: RedisClient, id: string, threads: number, silence_ms: number, group?: string): Promise<Member[]> {
  const flat = await memberBeat.call(client, { members: keys.members(group) }, { id, threads, silence_ms });
  const members: Member[] = [];
  for (let i = 0; i < flat.length; i += 2) members.push({ id: flat[i] ?? '', threads: Number(flat[i + 1]) });
  return members;
}
