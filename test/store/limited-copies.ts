// Partitions as replicas may have them: what was written later is lost in a failover.
import { keys } from '../../src/store/keys.ts';
import type { Rig } from '../helpers/rig.ts';

/** What a failover may forget; the sweep relies on AWAY_AFTER_MS being more. */
const FORGOTTEN_MS_MAX = 5_000;
const COPIES_MAX = 12;

interface Copy {
  written_ms: number;
  applied: string[];
  rows: [key: Buffer, bytes: Buffer][];
}

const DUMP = `
local out = {}
for i, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do out[i] = { key, redis.call('DUMP', key) } end
return out`;
const RESTORE = `
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do redis.call('DEL', key) end
for i = 2, #ARGV, 2 do redis.call('RESTORE', ARGV[i], 0, ARGV[i + 1]) end`;

export class Copies {
  readonly #rig: Rig;
  readonly #copies = new Map<number, Copy[]>();

  constructor(rig: Rig) {
    this.#rig = rig;
  }

  #of(p: number): Copy[] {
    const copies = this.#copies.get(p) ?? [];
    this.#copies.set(p, copies);
    return copies;
  }

  /** A partition as it is now; `applied` goes with it. */
  async add(p: number, applied: readonly string[]): Promise<void> {
    const rows = (await this.#rig.redis.callBuffer('eval', [DUMP, 0, rootOf(p)])) as Copy['rows'];
    const copies = this.#of(p);
    copies.push({ written_ms: this.#rig.now_ms, applied: [...applied], rows });
    if (copies.length > COPIES_MAX) copies.shift();
  }

  /** Goes back to an earlier one, no further than a failover can; returns what was applied by then. */
  async restore(p: number, back: number): Promise<string[] | null> {
    const copies = this.#of(p);
    const { now_ms, redis } = this.#rig;
    // A copy can be what is left where everything after it was written lately.
    const lately = copies.filter((_, i) => (copies[i + 1]?.written_ms ?? now_ms) >= now_ms - FORGOTTEN_MS_MAX);
    const copy = lately.at(-1 - back) ?? lately[0];
    if (copy === undefined) return null;
    copies.length = copies.indexOf(copy) + 1;
    await redis.eval(RESTORE, 0, rootOf(p), ...copy.rows.flat());
    return [...copy.applied];
  }
}

function rootOf(p: number): string {
  return keys.partition(p).slice(0, -1);
}
