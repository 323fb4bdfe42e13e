import { form, INTERVAL, type LimiterKind, units } from './kind.ts';

export const POINTS: LimiterKind = {
  letter: 'p',
  meaning:
    'A token bucket in points: a task takes its `points_cost` (1 where it has none) before it starts, at most `capacity`; `refill_rate` points come back every `interval`, evenly. An answer with `X-Points-Used: n` settles the difference.',
  use_for: 'Calls of unequal cost, such as a query cost or tokens of a model, where the receiver has a budget in points.',
  forms: [
    form('PointsConfig', 'A bucket of points.', {
      capacity: units('Points that it holds when full: the dearest task, and the largest burst.'),
      refill_rate: units('Points that it gains every interval.'),
      interval: INTERVAL,
    }),
  ],
  cost_max: 'capacity',
};
