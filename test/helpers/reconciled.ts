// A reconciler on a rig's Redis, and what it found.
import { createLog } from '../../src/base/log.ts';
import { Reconciler } from '../../src/delivery/reconciler.ts';
import { type Rig, SETTINGS } from './rig.ts';

/** Until everything is found: seen, at rest, forgotten once, forgotten twice. */
export const PASSES = 4;

export interface Watched {
  reconciler: Reconciler;
  /** How much of what was set right. */
  repaired: Record<string, number>;
}

export function watched({ redis }: Rig, chosen = () => true): Watched {
  const repaired: Record<string, number> = {};
  const reconciler = new Reconciler({
    client: redis,
    keep: SETTINGS,
    chosen,
    pass_ms: 1,
    share: 1,
    repaired: (_, what, count) => {
      repaired[what] = (repaired[what] ?? 0) + count;
    },
    log: createLog({ level: 'silent' }),
  });
  return { reconciler, repaired };
}

/** What is set right in as many passes as it takes. */
export async function reconciled(rig: Rig): Promise<Record<string, number>> {
  const { reconciler, repaired } = watched(rig);
  for (let k = 0; k < PASSES; k++) await reconciler.pass();
  return repaired;
}
