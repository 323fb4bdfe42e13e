// Counts, and serves what was counted. Each thread has one registry; the main thread's also holds what the others post.
//
// A series is a plain array that its user holds on to: an observation is a search in 17 numbers and three additions,
// without a map or a string. prom-client only writes the text, when somebody asks.
import { createRequire } from 'node:module';
import type * as Prom from 'prom-client';
import { endsWithin } from '../base/timing.ts';
import { type CounterName, type GaugeName, type HistogramName, type Labels, METRICS, type MetricName, type MetricRow } from './table.ts';

export interface Counter {
  add(n?: number): void;
}

export interface Gauge {
  set(value: number): void;
}

export interface Histogram {
  /** In the unit of the name: seconds. Once, or so many times. */
  observe(value: number, times?: number): void;
}

/** All series of one thread: metric → label values → numbers. Structured-cloneable and small. */
export type MetricsSnapshot = Readonly<Record<string, Readonly<Record<string, readonly number[]>>>>;

export interface Metrics {
  /** One series, to be kept by its user; the look-up is not for hot paths. */
  counter<K extends CounterName>(name: K, labels: Labels<K>): Counter;
  gauge<K extends GaugeName>(name: K, labels: Labels<K>): Gauge;
  histogram<K extends HistogramName>(name: K, labels: Labels<K>): Histogram;
  /** Ends a series of this thread: its user has let go of it. */
  forget<K extends MetricName>(name: K, labels: Labels<K>): void;
  /** Called before each snapshot and each text: to set gauges from what is at hand. */
  beforeSnapshot(hook: () => void): void;
  /** Called before each text, and waited for up to a second: to set gauges from what must be asked for. */
  beforeText(hook: () => Promise<void>): void;
  /** What a worker posts to the main thread. */
  snapshot(): MetricsSnapshot;
  /** The same, or null where nothing is other than in the last one. */
  news(): MetricsSnapshot | null;
  /** Takes a worker's latest snapshot; `source` names one life of one worker. */
  merge(source: string, snapshot: MetricsSnapshot): void;
  /** The worker is gone: what it counted stays, its gauges go. */
  retire(source: string): void;
  /** Everything, in Prometheus' text format. */
  text(): Promise<string>;
}

/** More series of one metric are counted as one, with `other` for every label. */
const SERIES_MAX = 1_000;
const HOOK_WAIT_MS = 1_000;
const SEPARATOR = '\u0001';
const NAMES = Object.keys(METRICS) as MetricName[];

type Series = Map<string, number[]>;
/** Whether a series is other than it was told. */
type Change = { seen: boolean };
type Family = Map<MetricName, Series>;

/** `process_metrics`: whether the text also has memory, CPU and garbage collection of the process (main thread only). */
export function createMetrics(options: { process_metrics?: boolean } = {}): Metrics {
  const own: Family = new Map(NAMES.map((name) => [name, new Map()]));
  const retired: Family = new Map(NAMES.map((name) => [name, new Map()]));
  const sources = new Map<string, MetricsSnapshot>();
  const snapshot_hooks: (() => void)[] = [];
  const text_hooks: (() => Promise<void>)[] = [];
  const change: Change = { seen: true };
  let known: Prom.Registry | null = null;
  const registry = (): Prom.Registry => {
    if (known !== null) return known;
    // Only who writes the text loads what writes it: of the other threads' starts that took 60 ms each.
    const prom = createRequire(import.meta.url)('prom-client') as typeof Prom;
    known = new prom.Registry();
    if (options.process_metrics === true) registerProcess(prom, known);
    for (const name of NAMES) register(known, name, () => total(name, own, retired, sources));
    return known;
  };
  // It counts from here on, as all the others.
  if (options.process_metrics === true) registry();

  const series = (name: MetricName, labels: Readonly<Record<string, string>>): number[] => {
    change.seen = true;
    return find(own, name, labels);
  };
  return {
    counter: (name, labels) => {
      const values = series(name, labels);
      const add = (n = 1): void => {
        if (n !== 0) change.seen = true;
        values[0] = (values[0] ?? 0) + n;
      };
      return { add };
    },
    gauge: (name, labels) => {
      const values = series(name, labels);
      const set = (value: number): void => {
        if (values[0] !== value) change.seen = true;
        values[0] = value;
      };
      return { set };
    },
    histogram: (name, labels) => observer(series(name, labels), METRICS[name].buckets, change),
    forget: (name, labels) => {
      change.seen = true;
      own.get(name)?.delete(keyOf(METRICS[name], labels));
    },
    beforeSnapshot: (hook) => void snapshot_hooks.push(hook),
    beforeText: (hook) => void text_hooks.push(hook),
    snapshot: () => {
      for (const hook of snapshot_hooks) hook();
      return toSnapshot(own);
    },
    news: () => {
      for (const hook of snapshot_hooks) hook();
      if (!change.seen) return null;
      change.seen = false;
      return toSnapshot(own);
    },
    merge: (source, snapshot) => void sources.set(source, snapshot),
    retire: (source) => {
      const last = sources.get(source);
      sources.delete(source);
      if (last === undefined) return;
      for (const name of NAMES) {
        if (METRICS[name].kind !== 'gauge') addAll(retired.get(name), last[name], METRICS[name]);
      }
    },
    text: async () => {
      for (const hook of snapshot_hooks) hook();
      await Promise.all(text_hooks.map(atMost));
      return registry().metrics();
    },
  };
}

/** Numbers of a histogram: a count for each bucket (not summed up), the count beyond the last, and the sum. */
function observer(values: number[], buckets: readonly number[], change: Change): Histogram {
  const size = buckets.length;
  return {
    observe: (value, times = 1) => {
      change.seen = true;
      const bucket = bucketOf(buckets, value);
      values[bucket] = (values[bucket] ?? 0) + times;
      values[size + 1] = (values[size + 1] ?? 0) + value * times;
    },
  };
}

/** The first bucket whose bound is not below the value; one beyond the last where there is none. */
export function bucketOf(buckets: readonly number[], value: number): number {
  let low = 0;
  let high = buckets.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (value <= (buckets[middle] ?? 0)) high = middle;
    else low = middle + 1;
  }
  return low;
}

function keyOf(row: MetricRow, labels: Readonly<Record<string, string>>): string {
  return row.labels.map((label) => labels[label] ?? '').join(SEPARATOR);
}

function find(family: Family, name: MetricName, labels: Readonly<Record<string, string>>): number[] {
  const row: MetricRow = METRICS[name];
  const all = family.get(name) ?? new Map<string, number[]>();
  let key = keyOf(row, labels);
  if (!all.has(key) && all.size >= SERIES_MAX) key = row.labels.map(() => 'other').join(SEPARATOR);
  let values = all.get(key);
  if (values === undefined) {
    values = new Array<number>(widthOf(row)).fill(0);
    all.set(key, values);
  }
  return values;
}

function widthOf(row: MetricRow): number {
  return row.kind === 'histogram' ? row.buckets.length + 2 : 1;
}

function toSnapshot(family: Family): MetricsSnapshot {
  const out: Record<string, Record<string, number[]>> = {};
  for (const [name, all] of family) {
    if (all.size > 0) out[name] = Object.fromEntries([...all].map(([key, values]) => [key, values.slice()]));
  }
  return out;
}

/** One metric over this thread, the living workers and the dead ones. */
function total(name: MetricName, own: Family, retired: Family, sources: ReadonlyMap<string, MetricsSnapshot>): Series {
  const row: MetricRow = METRICS[name];
  const sum: Series = new Map();
  addAll(sum, Object.fromEntries(own.get(name) ?? []), row);
  addAll(sum, Object.fromEntries(retired.get(name) ?? []), row);
  for (const snapshot of sources.values()) addAll(sum, snapshot[name], row);
  return sum;
}

function addAll(into: Series | undefined, from: Readonly<Record<string, readonly number[]>> | undefined, row: MetricRow): void {
  for (const [key, values] of Object.entries(from ?? {})) {
    const known = into?.get(key);
    if (known === undefined) into?.set(key, values.slice());
    else if (row.kind === 'gauge' && row.merge === 'max') known[0] = Math.max(known[0] ?? 0, values[0] ?? 0);
    else for (let i = 0; i < known.length; i++) known[i] = (known[i] ?? 0) + (values[i] ?? 0);
  }
}

/**
 * Without those of the event loop's delay: `event_loop_lag_seconds` says it of each thread, and does not wake an idle one for it; and without the gauges that are
 * named like counters.
 */
function registerProcess(prom: typeof Prom, registry: Prom.Registry): void {
  prom.collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 3_600_000 });
  for (const of of ['handles', 'requests', 'resources']) registry.removeSingleMetric(`nodejs_active_${of}_total`);
  for (const of of ['min', 'max', 'mean', 'stddev', 'p50', 'p90', 'p99']) registry.removeSingleMetric(`nodejs_eventloop_lag_${of}_seconds`);
}

interface Sample {
  value: number;
  labels: Record<string, string>;
  metricName?: string;
}

function register(registry: Prom.Registry, name: MetricName, read: () => Series): void {
  const row: MetricRow = METRICS[name];
  const full = `sluice_${name}`;
  const get = async (): Promise<{ name: string; help: string; type: string; values: Sample[]; aggregator: string }> => {
    const series = read();
    if (row.labels.length === 0 && series.size === 0) series.set('', new Array<number>(widthOf(row)).fill(0));
    const values = [...series].flatMap(([key, numbers]) => samples(full, row, key, numbers));
    return { name: full, help: row.help, type: row.kind, values, aggregator: 'sum' };
  };
  // All that a registry asks of a metric is its name and this `get`; prom-client's types only know its own classes.
  registry.registerMetric({ name: full, help: row.help, get } as unknown as Prom.Metric<string>);
}

function samples(full: string, row: MetricRow, key: string, numbers: readonly number[]): Sample[] {
  const parts = key.split(SEPARATOR);
  const labels = Object.fromEntries(row.labels.map((label, i) => [label, parts[i] ?? '']));
  if (row.kind !== 'histogram') return [{ value: numbers[0] ?? 0, labels }];
  let count = 0;
  const out: Sample[] = row.buckets.map((le, i) => {
    count += numbers[i] ?? 0;
    return { value: count, labels: { ...labels, le: String(le) }, metricName: `${full}_bucket` };
  });
  count += numbers[row.buckets.length] ?? 0;
  out.push({ value: count, labels: { ...labels, le: '+Inf' }, metricName: `${full}_bucket` });
  out.push({ value: numbers[row.buckets.length + 1] ?? 0, labels, metricName: `${full}_sum` });
  out.push({ value: count, labels, metricName: `${full}_count` });
  return out;
}

/** A scrape must come back also while Redis does not: a hook that is late or fails leaves the numbers of the last time. */
async function atMost(hook: () => Promise<void>): Promise<void> {
  await endsWithin(
    hook().catch(() => {}),
    HOOK_WAIT_MS,
  );
}
