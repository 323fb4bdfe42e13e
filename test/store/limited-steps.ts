// What can happen to tasks of limiters; see limited-model.ts.
import fc from 'fast-check';
import { AWAY_AFTER_MS } from '../../src/store/outbox.ts';
import type { Verdict } from '../../src/store/partition.ts';

export const PARTITIONS = 3;

const pick = fc.nat({ max: 1_000_000 });
const partition = fc.nat({ max: PARTITIONS - 1 });
const verdict = fc.constantFrom<Verdict>('c', 'c', 'c', 'f', 'r', 'b', 's', 'k');
export const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('create' as const),
      partition,
      lane: pick,
      tasks: fc.integer({ min: 1, max: 7 }),
      later: fc.boolean(),
      /** Expires soon. */
      short: fc.boolean(),
      told: fc.boolean(),
    }),
  },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('slice' as const), partition, max: fc.constantFrom(1, 2, 3, 500) }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('receive' as const), pick, lost: fc.boolean() }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('ack' as const), pick }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('crash' as const), pick }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('relay' as const), partition }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('grant' as const), partition, max: fc.constantFrom(1, 2, 500) }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('claim' as const), partition, room: fc.constantFrom(0, 1, 2, 100) }) },
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constant('settle' as const), partition, verdicts: fc.array(verdict, { minLength: 1, maxLength: 4 }) }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('tick' as const), partition }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('cancel' as const), pick }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('cancelTask' as const), pick }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('retry' as const), pick }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('retryTask' as const), pick }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('delete' as const), pick }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('reap' as const), partition }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('overdue' as const), partition }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('ask' as const), pick }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('book' as const), pick }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('sweep' as const), partition }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('failover' as const), partition, back: fc.integer({ min: 1, max: 8 }) }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: fc.constantFrom(1, 40, 700, 4_000, AWAY_AFTER_MS) }) },
);
export type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;
export type Of<K extends Step['kind']> = Extract<Step, { kind: K }>;
