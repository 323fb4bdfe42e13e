import { form, INTERVAL, type LimiterKind, units } from './kind.ts';

export const LEAKY: LimiterKind = {
  letter: 'l',
  meaning:
    'A leaky bucket: each start adds a drop, and needs room for it; `drain_rate` drops leave every `interval`, evenly. It holds `capacity` drops.',
  use_for: 'An even flow at a known rate, with a burst of `capacity` after a quiet time. `capacity: 1` spaces starts evenly.',
  forms: [
    form('LeakyConfig', 'A leaky bucket.', {
      capacity: units('Drops that it holds: the largest burst.'),
      drain_rate: units('Drops that leave every interval.'),
      interval: INTERVAL,
    }),
  ],
};
