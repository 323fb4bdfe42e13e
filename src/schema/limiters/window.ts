import { form, INTERVAL, type LimiterKind, units } from './kind.ts';

export const WINDOW: LimiterKind = {
  letter: 'w',
  meaning: 'A sliding window: no span of `interval` seconds, wherever it begins, holds more than `limit` starts.',
  use_for: 'The receiver counts requests and refuses or bans at a number in any span. Exact, not approximated.',
  forms: [form('WindowConfig', 'A sliding window.', { limit: units('Starts in any span of the interval.'), interval: INTERVAL })],
};
