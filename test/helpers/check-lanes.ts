// What must hold of a partition's lanes at any time; see check-partition.ts.
import assert from 'node:assert/strict';
import type { Dump, Dumped } from './dump-partition.ts';

/** What waits in lanes is counted by kind. */
export function checkLimitedGauges(dump: Dump): void {
  const meta = hash(dump, 'm');
  const waiting = new Map<string, number>();
  for (const name of dump.keys()) {
    if (!/^lane:\w+$/.test(name)) continue;
    const lane = hash(dump, name);
    const field = `limited:${lane.get('kind') ?? ''}`;
    waiting.set(field, (waiting.get(field) ?? 0) + Number(lane.get('waiting') ?? '0'));
  }
  for (const field of new Set([...waiting.keys(), ...[...meta.keys()].filter((name) => name.startsWith('limited:'))])) {
    assert.equal(Number(meta.get(field) ?? '0'), waiting.get(field) ?? 0, `gauge ${field}`);
  }
}

const hashes = new WeakMap<Dumped, Map<string, string>>();

/** Pairs of a hash or a sorted set; read once a dump. */
export function hash(dump: Dump, key: string): ReadonlyMap<string, string> {
  const dumped = dump.get(key);
  if (dumped === undefined) return new Map();
  let map = hashes.get(dumped);
  if (map === undefined) {
    map = new Map<string, string>();
    for (let i = 0; i < dumped.items.length; i += 2) map.set(dumped.items[i] ?? '', dumped.items[i + 1] ?? '');
    hashes.set(dumped, map);
  }
  return map;
}
