// A reconciler on a rig's Redis, and what it found.
import assert from 'node:assert/strict';
import { createLog } from '../../src/base/log.ts';
import { Reconciler } from '../../src/delivery/reconciler.ts';
import { type Rig, SETTINGS } from './rig.ts';

/** Until everything is found: seen, at rest, forgotten once, forgotten twice. */
export const PASSES = 4;

export interface Watched {
  reconciler: Reconciler;
  /** How much of what was set right. */
  repaired: Record<string, number>;
  /** Lines of its log. */
  logged: string[];
}

export function watched({ redis }: Rig, owns = true): Watched {
  const repaired: Record<string, number> = {};
  const logged: string[] = [];
  const reconciler = new Reconciler({
    client: redis,
    partitions: 4,
    keep: SETTINGS,
    owns: () => owns,
    pass_ms: 1,
    share: 1,
    meter: (what, count) => {
      repaired[what] = (repaired[what] ?? 0) + count;
    },
    log: createLog({ destination: { write: (line) => void logged.push(line) } }),
  });
  return { reconciler, repaired, logged };
}

/** What is set right in as many passes as it takes. */
export async function reconciled(rig: Rig): Promise<Record<string, number>> {
  const { reconciler, repaired, logged } = watched(rig);
  for (let k = 0; k < PASSES; k++) await reconciler.pass();
  assert.equal(logged.length > 0, Object.keys(repaired).length > 0, 'what is repaired is logged');
  return repaired;
}
