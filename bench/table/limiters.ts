// What a limiter of 1,000 a second lets through while more waits than it allows, seen at a receiver: how much of it is used,
// how evenly it comes, and the most in any second. Nothing is taken off for what a request's way takes.
import { Bullmq, type BullmqSetup } from '../lib/bullmq.ts';
import { best } from '../lib/peer.ts';
import type { Receiver } from '../lib/receiver.ts';
import { mostWithin } from '../lib/stats.ts';
import { BYTES, exactly, type Ground, type Row, type Side, startStage, tableBodies } from './row.ts';

const SECOND_MS = 1_000;
const SPAN_MS = 100;
const CAPACITY = 10;

interface Size {
  rate: number;
  leaky: number;
  window: number;
  peer: number;
  /** What a limiter opens with is over by then. */
  skip_ms: number;
}

const FULL: Size = { rate: 1_000, leaky: 20_000, window: 12_000, peer: 12_000, skip_ms: 2_000 };
const SMOKE: Size = { rate: 200, leaky: 300, window: 300, peer: 300, skip_ms: 0 };

export const limiters: Row = {
  name: 'limiters',
  what: '1,000 starts a second while 20,000 tasks wait: leaky with capacity 10, then window (12,000); BullMQ’s limiter',
  sluice,
  peers: { bullmq },
  measures: [
    measure(
      'leaky, 1,000/s, 20,000 waiting: share used; BullMQ’s, 12,000 waiting',
      'sluice.leaky_share',
      'bullmq.share',
      'higher',
      0.995,
      0.999,
    ),
    measure('leaky: variation of 100 ms spans; BullMQ', 'sluice.leaky_variation', 'bullmq.variation', 'lower', 0.15, 0.05),
    measure('leaky: worst second, % over; BullMQ', 'sluice.leaky_over_percent', 'bullmq.over_percent', 'lower', 1, 0),
    measure('window, 1,000/s, 12,000 waiting: share used; BullMQ’s', 'sluice.window_share', 'bullmq.share', 'higher', 0.995, 0.999),
    measure('window: worst second, % over; BullMQ', 'sluice.window_over_percent', 'bullmq.over_percent', 'lower', 1, 0),
  ],
};

function measure(
  text: string,
  sluice: string,
  peer: string,
  better: 'higher' | 'lower',
  must: number,
  aim: number,
): Row['measures'][number] {
  return { number: '10', measure: text, sluice, peer, value: 'sluice', better, must, aim };
}

async function sluice(ground: Ground): Promise<Side> {
  const stage = await startStage(ground);
  const { api, receiver } = stage;
  const size = ground.smoke ? SMOKE : FULL;
  let made = 0;
  const run = async (type: string, config: object, count: number): Promise<Shape> => {
    const limiter = await api.createLimiter({ name: `table-${type}-${made++}`, type, config });
    await api.limiter(limiter.id, 'pause');
    await receiver.reset();
    const ids = await api.createBatches(tableBodies(`${receiver.origin}/hook?sent=0`, count, { rate_limiter: limiter.name }));
    await api.limiter(limiter.id, 'resume');
    await receiver.received(count);
    await api.completed(ids);
    return shapeOf(await arrivals(receiver, count), size);
  };
  const once = async (): Promise<Record<string, number>> => {
    const leaky = await run('leaky', { capacity: CAPACITY, drain_rate: size.rate, interval: 1 }, size.leaky);
    const window = await run('window', { limit: size.rate, interval: 1 }, size.window);
    const named = (name: string, shape: Shape) => Object.entries(shape).map(([figure, value]) => [`${name}_${figure}`, value]);
    return Object.fromEntries([...named('leaky', leaky), ...named('window', window)]);
  };
  return { once, close: () => stage.stop() };
}

/** The limit as it is said, and in tenths: the more even of the two. */
async function bullmq({ receiver, smoke }: Ground): Promise<Side> {
  const size = smoke ? SMOKE : FULL;
  const setup = (duration: number): BullmqSetup => ({
    ...{ workers: 1, concurrency: 100, producers: 1, at_once: 2 },
    limiter: { max: (size.rate * duration) / SECOND_MS, duration },
  });
  const run = async (setup: BullmqSetup, count: number): Promise<Shape> => {
    const peer = await Bullmq.start(receiver.origin, { ...setup, workers: 0 });
    await receiver.reset();
    await peer.prepare(count, `${receiver.origin}/hook?sent=0`, BYTES);
    await peer.add();
    await peer.startWorkers(receiver.origin, setup);
    await receiver.received(count);
    const shape = shapeOf(await arrivals(receiver, count), size);
    await peer.stop();
    return shape;
  };
  const chosen = await best(smoke ? [setup(SPAN_MS)] : [setup(SECOND_MS), setup(SPAN_MS)], async (tried) => {
    const { variation } = await run(tried, size.rate * 5);
    return 1 / variation;
  });
  return { once: async () => ({ ...(await run(chosen, size.peer)) }), close: async () => {} };
}

/** When each came, in milliseconds of a clock that tells parts of them: of whole ones a second is up to one longer. Ascending. */
async function arrivals(receiver: Receiver, count: number): Promise<number[]> {
  await exactly(receiver, count);
  return (await receiver.delays_ms()).sort((a, b) => a - b);
}

// A type, so that it is also a record.
type Shape = {
  share: number;
  variation: number;
  over_percent: number;
};

function shapeOf(at_ms: readonly number[], { rate, skip_ms }: Size): Shape {
  const from_ms = (at_ms[0] ?? 0) + skip_ms;
  const steady = at_ms.filter((at) => at >= from_ms);
  const last_ms = steady.at(-1) ?? from_ms;
  return {
    share: share(steady, rate),
    variation: variation(steady, from_ms, last_ms),
    over_percent: ((mostWithin(at_ms, SECOND_MS) - rate) / rate) * 100,
  };
}

/** By how long it takes until so many more as a second allows have come: right whether they come evenly or in bursts. */
function share(at_ms: readonly number[], rate: number): number {
  const gaps = at_ms.slice(rate).map((to, i) => to - (at_ms[i] ?? 0));
  return SECOND_MS / (gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length);
}

/** Standard deviation of how many come in each whole span, of their mean. */
function variation(at_ms: readonly number[], from_ms: number, to_ms: number): number {
  const counts = Array.from({ length: Math.floor((to_ms - from_ms) / SPAN_MS) }, () => 0);
  for (const at of at_ms) {
    const span = Math.floor((at - from_ms) / SPAN_MS);
    if (span < counts.length) counts[span] = (counts[span] ?? 0) + 1;
  }
  const mean = counts.reduce((sum, count) => sum + count, 0) / counts.length;
  const squares = counts.reduce((sum, count) => sum + (count - mean) ** 2, 0);
  return Math.sqrt(squares / counts.length) / mean;
}
