import { form, INTERVAL, type LimiterKind, units } from './kind.ts';

export const BUCKET: LimiterKind = {
  letter: 'b',
  meaning:
    'With `limit`: fixed windows aligned to the epoch, at most `limit` starts in each. With `capacity` and `refill_rate`: a token bucket that starts full and gains `refill_rate` tokens every `interval`, evenly.',
  use_for:
    'The receiver counts by the clock ("1,000 an hour, anew at the full hour"), or grants a burst and then an average. Around the edge of a fixed window twice the limit may start within one interval.',
  forms: [
    form('BucketConfig', 'Fixed windows aligned to the epoch.', { limit: units('Starts in each window.'), interval: INTERVAL }),
    form('TokenBucketConfig', 'A token bucket.', {
      capacity: units('Tokens that it holds when full: the largest burst.'),
      refill_rate: units('Tokens that it gains every interval.'),
      interval: INTERVAL,
    }),
  ],
};
