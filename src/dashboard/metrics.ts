// What the process that serves this page tells Prometheus, read into rates for the charts. No stream carries these numbers,
// so they are asked for every two seconds while the page is looked at.
import { useEffect, useRef, useState } from 'preact/hooks';

/** One reading: value by `name{labels}` as in the text format. */
export type Sample = ReadonlyMap<string, number>;

export interface History {
  /** Seconds since the epoch. */
  times: number[];
  samples: Sample[];
}

export type MetricsState = { kind: 'waiting' } | { kind: 'refused' } | { kind: 'away' } | { kind: 'live'; history: History };

const EVERY_MS = 2_000;
const KEPT = 150;

export function readMetrics(text: string): Sample {
  const sample = new Map<string, number>();
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    const space = line.lastIndexOf(' ');
    sample.set(line.slice(0, space), Number(line.slice(space + 1)));
  }
  return sample;
}

/** The sum over all label sets of a metric that contain `part`. */
export function sumOf(sample: Sample, name: string, part = ''): number {
  let sum = 0;
  for (const [key, value] of sample) {
    if ((key === name || key.startsWith(`${name}{`)) && key.includes(part)) sum += value;
  }
  return sum;
}

/** Growth a second between one reading and the next; null for the first and where a process began anew. */
export function rates({ times, samples }: History, read: (sample: Sample) => number): (number | null)[] {
  return samples.map((sample, i) => {
    const before = samples[i - 1];
    if (before === undefined) return null;
    const growth = read(sample) - read(before);
    return growth < 0 ? null : growth / Math.max(0.001, (times[i] ?? 0) - (times[i - 1] ?? 0));
  });
}

/** A quantile of what a histogram counted between one reading and the next, in its own unit; null where it counted nothing. */
export function quantiles({ samples }: History, name: string, quantile: number): (number | null)[] {
  return samples.map((sample, i) => {
    const before = samples[i - 1];
    if (before === undefined) return null;
    const buckets = bucketsOf(sample, name).map(([le, total]) => [le, total - (before.get(`${name}_bucket{le="${le}"}`) ?? 0)] as const);
    const all = buckets.at(-1)?.[1] ?? 0;
    if (all <= 0) return null;
    const found = buckets.find(([, total]) => total >= all * quantile);
    const limit = Number(found?.[0]);
    return Number.isFinite(limit) ? limit : Number(buckets.at(-2)?.[0] ?? 0);
  });
}

function bucketsOf(sample: Sample, name: string): [le: string, total: number][] {
  const buckets: [string, number][] = [];
  for (const [key, value] of sample) {
    const le = key.startsWith(`${name}_bucket{`) ? /^[^{]*\{le="([^"]+)"\}$/.exec(key)?.[1] : undefined;
    if (le !== undefined) buckets.push([le, value]);
  }
  return buckets;
}

/** Follows /metrics; `token` where the service wants one. */
export function useMetrics(token: string | null): MetricsState {
  const [state, setState] = useState<MetricsState>({ kind: 'waiting' });
  const history = useRef<History>({ times: [], samples: [] });
  useEffect(() => {
    let stopped = false;
    const read = async (): Promise<void> => {
      if (document.hidden) return;
      const response = await fetch('/metrics', { headers: token === null ? {} : { Authorization: `Bearer ${token}` } }).catch(() => null);
      if (stopped) return;
      if (response === null || !response.ok) {
        setState({ kind: response?.status === 401 ? 'refused' : 'away' });
        return;
      }
      const sample = readMetrics(await response.text());
      const { times, samples } = history.current;
      history.current = { times: [...times, Date.now() / 1000].slice(-KEPT), samples: [...samples, sample].slice(-KEPT) };
      if (!stopped) setState({ kind: 'live', history: history.current });
    };
    void read();
    const timer = setInterval(() => void read(), EVERY_MS);
    return () => {
      stopped = true;
      clearInterval(timer);
    };
  }, [token]);
  return state;
}
