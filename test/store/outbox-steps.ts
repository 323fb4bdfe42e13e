// What can happen to messages, at random: single steps, and courses of several that chance alone would seldom bring about.
import fc from 'fast-check';
import { AWAY_AFTER_MS } from '../../src/store/outbox.ts';

export const PARTITIONS = 2;
const STEPS_MIN = 40;

const pick = fc.nat({ max: 1_000_000 });
const partition = fc.nat({ max: PARTITIONS - 1 });
const lost = fc.boolean();
const item = fc.record({ verb: fc.constantFrom('hand', 'hand', 'release', 'again', 'bare'), to: partition, pick });
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('append' as const), partition, items: fc.array(item, { minLength: 1, maxLength: 4 }) }),
  },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('slice' as const), partition, max: fc.constantFrom(1, 2, 3, 500) }) },
  { weight: 7, arbitrary: fc.record({ kind: fc.constant('receive' as const), pick, lost }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('ack' as const), pick }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('crash' as const), pick }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('relay' as const), partition }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('overdue' as const), partition }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('ask' as const), pick }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('book' as const), pick }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('sweep' as const), partition }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('failover' as const), partition, back: fc.integer({ min: 1, max: 6 }) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: fc.constantFrom(1, 700, 4_000, AWAY_AFTER_MS) }) },
);
export type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;
export type Of<K extends Step['kind']> = Extract<Step, { kind: K }>;

/** Courses of events that chance alone would seldom bring about, each against a rule of the protocol; other steps may come in between. */
const course = fc.tuple(partition, partition, fc.integer({ min: 1, max: 3 })).chain(([source, to, back]) => {
  const change = (verb: 'hand' | 'release' | 'again'): Step => ({ kind: 'append', partition: source, items: [{ verb, to, pick: 0 }] });
  const relaying: Step = { kind: 'relay', partition: source };
  const sweeping: Step = { kind: 'sweep', partition: source };
  const asking: Step[] = [
    { kind: 'overdue', partition: source },
    { kind: 'ask', pick: 0 },
  ];
  const wait: Step = { kind: 'pass', ms: AWAY_AFTER_MS };
  const forget: Step = { kind: 'failover', partition: to, back };
  const courses: Step[][] = [
    // A release that waited long is asked about right after it arrived.
    [change('hand'), relaying, change('release'), wait, relaying, sweeping, forget],
    // An answer is booked after two more changes, of which the destination forgets one.
    [
      change('hand'),
      change('release'),
      relaying,
      wait,
      ...asking,
      change('again'),
      relaying,
      change('release'),
      relaying,
      { kind: 'book', pick: 0 },
      forget,
    ],
    // Acknowledged and lost.
    [change('hand'), relaying, forget, relaying, wait, sweeping],
  ];
  return fc.constantFrom(...courses);
});
export const steps = fc.array(fc.oneof({ weight: 40, arbitrary: step.map((one) => [one]) }, { weight: 2, arbitrary: course }), {
  minLength: STEPS_MIN,
  maxLength: STEPS_MIN,
});
