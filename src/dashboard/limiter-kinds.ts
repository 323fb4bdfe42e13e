// The kinds of rate limiters as people choose them, and what a configuration says in words.
import type { LimiterCreate } from '../client/index.ts';
import { count } from './format.ts';

interface Field {
  name: string;
  label: string;
  max: number;
  optional?: true;
}

export interface Kind {
  label: string;
  type: LimiterCreate['type'];
  meaning: string;
  fields: readonly Field[];
}

const MILLION = 1_000_000;
const INTERVAL: Field = { name: 'interval', label: 'Seconds', max: 2_592_000 };
const LOCK: Field = { name: 'lock_timeout', label: 'A slot is given up after, seconds', max: 86_400, optional: true };
const STARTS: Field = { name: 'limit', label: 'Starts', max: MILLION };
const CAPACITY: Field = { name: 'capacity', label: 'Capacity', max: MILLION };
const REFILL: Field = { name: 'refill_rate', label: 'Come back in that time', max: MILLION };

export const KINDS: readonly [Kind, ...Kind[]] = [
  {
    label: 'Sliding window',
    type: 'window',
    meaning: 'No span of so many seconds, wherever it begins, holds more starts.',
    fields: [STARTS, INTERVAL],
  },
  { label: 'Fixed window', type: 'bucket', meaning: 'So many starts in each window of the clock.', fields: [STARTS, INTERVAL] },
  { label: 'Token bucket', type: 'bucket', meaning: 'Starts full; tokens come back evenly.', fields: [CAPACITY, REFILL, INTERVAL] },
  {
    label: 'Leaky bucket',
    type: 'leaky',
    meaning: 'Each start adds a drop; drops leave evenly, and a start needs room.',
    fields: [CAPACITY, { name: 'drain_rate', label: 'Leave in that time', max: MILLION }, INTERVAL],
  },
  {
    label: 'Points',
    type: 'points',
    meaning: 'As a token bucket, where each task has a cost of its own.',
    fields: [CAPACITY, REFILL, INTERVAL],
  },
  {
    label: 'Concurrent',
    type: 'concurrent',
    meaning: 'So many tasks run at the same time.',
    fields: [{ ...STARTS, label: 'At once', max: 100_000 }, LOCK],
  },
];

/** The kind that a limiter has; a bucket is told by its fields. */
export function kindOf(type: string, config: Record<string, unknown>): Kind {
  return KINDS.find((kind) => kind.type === type && kind.fields.every(({ name, optional }) => optional || name in config)) ?? KINDS[0];
}

const SPANS: Readonly<Record<number, string>> = { 1: 'second', 60: 'minute', 3600: 'hour', 86400: 'day' };

export function configText(type: string, config: Record<string, unknown>): string {
  const number = (name: string): string => count(Number(config[name]));
  const span = SPANS[Number(config['interval'])] ?? `${number('interval')} s`;
  if (type === 'concurrent') return `${number('limit')} at once`;
  if ('limit' in config) return `${number('limit')} in ${type === 'window' ? 'any' : 'each'} ${span}`;
  const rate = number('drain_rate' in config ? 'drain_rate' : 'refill_rate');
  return `${rate}${type === 'points' ? ' points' : ''} per ${span}, up to ${number('capacity')} at once`;
}
