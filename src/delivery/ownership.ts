// Which thread works on which partition. Pure: every process that sees the same members comes to the same answer.
//
// Rendezvous hashing with a bound: each partition goes to the thread that scores highest for it among those that have
// not got their share yet. So loads differ by one at most, and when a thread joins or leaves, few partitions move.
// Ownership is for efficiency alone: two owners of a partition, or none for a moment, break nothing.
import type { Member } from '../store/members.ts';

/** A thread of a process. */
export interface ThreadName {
  id: string;
  thread: number;
}

/** Partitions of each thread of process `self`, by thread number. */
export function partitionsOf(self: string, members: readonly Member[], partitions: number): number[][] {
  const threads = members.flatMap(({ id, threads: count }) => Array.from({ length: count }, (_, thread): ThreadName => ({ id, thread })));
  const own = members.find(({ id }) => id === self)?.threads ?? 0;
  const result = Array.from({ length: own }, (): number[] => []);
  for (const [partition, owner] of assign(threads, partitions).entries()) {
    if (owner !== undefined && owner.id === self) result[owner.thread]?.push(partition);
  }
  return result;
}

/** The owner of each partition. */
export function assign(threads: readonly ThreadName[], partitions: number): (ThreadName | undefined)[] {
  const ordered = [...threads].sort((a, b) => (a.id === b.id ? a.thread - b.thread : a.id < b.id ? -1 : 1));
  const loads = new Map<ThreadName, number>();
  const owners: (ThreadName | undefined)[] = [];
  for (let partition = 0; partition < partitions; partition++) {
    const share = Math.floor(partition / ordered.length) + 1;
    let best: ThreadName | undefined;
    let best_score = -1;
    for (const thread of ordered) {
      if ((loads.get(thread) ?? 0) >= share) continue;
      const score = hash(`${thread.id}/${thread.thread}/${partition}`);
      if (score > best_score) {
        best = thread;
        best_score = score;
      }
    }
    if (best !== undefined) loads.set(best, (loads.get(best) ?? 0) + 1);
    owners.push(best);
  }
  return owners;
}

/** FNV-1a with a final mix; 32 bits are plenty to rank a few hundred threads. */
function hash(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}
