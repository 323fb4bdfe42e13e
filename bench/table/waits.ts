// What one task waits for: alone from being received to its callback, and beyond its time when it is due later.
//
// The clock of a single task starts where the system that is measured begins with it: when a POST has reached the first line of our server, and
// for BullMQ with the call of `add`. It stops when the receiver has the head of the callback. From the first byte of the POST on, written by another process, it is
// shown beside that: to be woken by it is part of the server's work, to wake BullMQ's producer, who is told by another process, too, is not counted.
//
// Both are warm: a server has run for a while before anybody asks how quick it is, and code that ran ten times is not compiled yet.
import { Arrivals } from '../lib/arrivals.ts';
import { type Figures, pause } from '../lib/bench.ts';
import { Bullmq } from '../lib/bullmq.ts';
import { batchBody } from '../lib/payload.ts';
import { CLOCK, Poster } from '../lib/poster.ts';
import type { Receiver } from '../lib/receiver.ts';
import { percentile } from '../lib/stats.ts';
import { BYTES, exactly, type Ground, type Row, type Side, startStage, tableTask, timesBelowBullmq, WARM_UP } from './row.ts';

const GAP_MS = 100;
/** Of one repeat; the percentiles that count are of all repeats together, two thousand: the tenth slowest of a thousand differs by a third from run to run. */
const TASKS = 400;
/** How long before it the receiver is asked to tell of the callback, which is not to disturb it then. */
const CALM_MS = 20;
/**
 * An hour at ten a second. The slowest hundredth is what waits for V8's helper threads, which compile for 2 to 4 ms at a time what has been called often enough: in each
 * 4,000 tasks of ours 683 functions, 73, 135, 38, 43, 30, and then 12. With a gap, so that each takes the way of a task that comes alone, which the next 10 ms after one do
 * not. In stretches as long as a repeat, since the tasks of each are numbered anew: a function
 * that had met the number 0 only before V8 took notes of its calls was compiled without it, and again, for 2 to 4 ms, in the midst of what is measured.
 */
const WARM_STRETCHES = 36_000 / TASKS;
const WARM_GAP_MS = 12;
const DUE_TASKS = 1_000;
/** Bursts before the first that counts, and how long before its time each is handed in. */
const WARM_RUNS = WARM_UP / DUE_TASKS;
const WARM_LEAD_MS = 200;
const SETUP = { workers: 1, concurrency: 100, producers: 1, at_once: 1 };

export const latency: Row = {
  name: 'latency',
  what: 'POST /v1/tasks (BullMQ: add), one at a time, ten a second: from when the server has it (BullMQ: from the call) to its callback',
  async sluice(ground) {
    const { receiver } = ground;
    const arrivals = new Arrivals();
    const stage = await startStage(ground, arrivals);
    const poster = new Poster(stage.engine.url);
    return alone(ground, {
      send: (number) => {
        const body = JSON.stringify(tableTask(`${receiver.origin}/hook?sent=${CLOCK}`, number));
        return poster.send(Poster.prepare('/v1/tasks', stage.engine.token, body));
      },
      arrivals_ms: () => arrivals.take(stage.engine.pid),
      close: async () => {
        poster.close();
        await stage.stop();
        arrivals.close();
      },
    });
  },
  peers: {
    async bullmq(ground) {
      const peer = await Bullmq.start(ground.receiver.origin, SETUP);
      return alone(ground, {
        send: async (number) => {
          await peer.addOne(`${ground.receiver.origin}/hook`, number, BYTES);
          return Number.NaN;
        },
        close: () => peer.stop(),
      });
    },
  },
  measures: [
    {
      ...{
        number: '9',
        measure: 'latency at 10/s, POST received → callback received, p50, ms ÷ BullMQ',
        value: 'sluice/peer',
        better: 'lower',
      },
      ...{ sluice: 'sluice.p50_ms', peer: 'bullmq.p50_ms', must: 1, aim: 0.7, together: true },
    },
    {
      ...{ number: '9', measure: 'the same, p99, ms ÷ BullMQ', value: 'sluice/peer', better: 'lower' },
      ...{ sluice: 'sluice.p99_ms', peer: 'bullmq.p99_ms', must: 0.8, aim: 0.5, together: true },
    },
    {
      ...{ number: '9', measure: 'from the first byte of the POST, p50, ms ÷ BullMQ', value: 'sluice/peer', better: 'lower' },
      ...{ sluice: 'sluice.first_byte_p50_ms', peer: 'bullmq.p50_ms', must: null, aim: null, together: true },
    },
    {
      ...{ number: '9', measure: 'the same, p99, ms ÷ BullMQ', value: 'sluice/peer', better: 'lower' },
      ...{ sluice: 'sluice.first_byte_p99_ms', peer: 'bullmq.p99_ms', must: null, aim: null, together: true },
    },
  ],
};

/** One who hands in single tasks. */
interface Caller {
  /** Resolves when it is accepted, with the moment of sending, which matters to who tells of arrivals. */
  send(number: number): Promise<number>;
  /** When all that was sent since the last call came in. Where it is missing, the callback's own clock starts then. */
  arrivals_ms?(): Promise<number[]>;
  close(): Promise<void>;
}

async function alone(ground: Ground, caller: Caller): Promise<Side> {
  const { receiver, smoke } = ground;
  if (smoke) await oneByOne(receiver, 2, WARM_GAP_MS, caller);
  else for (let i = 0; i < WARM_STRETCHES; i++) await oneByOne(receiver, TASKS, WARM_GAP_MS, caller);
  const all: Waits = { from_arrival_ms: [], from_first_byte_ms: [] };
  const once = async (): Promise<Figures> => {
    const waits = await oneByOne(receiver, smoke ? 5 : TASKS, GAP_MS, caller);
    all.from_arrival_ms.push(...waits.from_arrival_ms);
    all.from_first_byte_ms.push(...waits.from_first_byte_ms);
    return figuresOf(waits);
  };
  return { once, together: () => figuresOf(all), close: () => caller.close() };
}

interface Waits {
  from_arrival_ms: number[];
  /** The same where nothing is known of arrivals. */
  from_first_byte_ms: number[];
}

async function oneByOne(receiver: Receiver, count: number, gap_ms: number, caller: Caller): Promise<Waits> {
  await receiver.reset();
  await caller.arrivals_ms?.();
  const sent_ms: number[] = [];
  for (let i = 0; i < count; i++) {
    const next_ms = performance.now() + gap_ms;
    const called = receiver.received(i + 1);
    if (gap_ms > CALM_MS) await pause(CALM_MS);
    const [at_ms] = await Promise.all([caller.send(i), called]);
    sent_ms.push(at_ms);
    await pause(next_ms - performance.now());
  }
  const delays_ms = await receiver.delays_ms();
  const arrivals_ms = (await caller.arrivals_ms?.()) ?? sent_ms;
  if (delays_ms.length !== count || arrivals_ms.length !== count)
    throw new Error(`of ${count} tasks ${arrivals_ms.length} came in, and ${delays_ms.length} were called`);
  const on_way_ms =
    caller.arrivals_ms === undefined ? sent_ms.map(() => 0) : arrivals_ms.map((at_ms, i) => at_ms - (sent_ms[i] ?? Number.NaN));
  return { from_arrival_ms: delays_ms.map((ms, i) => ms - (on_way_ms[i] ?? Number.NaN)), from_first_byte_ms: delays_ms };
}

function figuresOf({ from_arrival_ms, from_first_byte_ms }: Waits): Record<string, number> {
  return {
    p50_ms: percentile(from_arrival_ms, 0.5),
    p99_ms: percentile(from_arrival_ms, 0.99),
    first_byte_p50_ms: percentile(from_first_byte_ms, 0.5),
    first_byte_p99_ms: percentile(from_first_byte_ms, 0.99),
  };
}

export const lateness: Row = {
  name: 'lateness',
  what: '1,000 tasks due at one moment, then 1,000 spread over five seconds: arrival after execute_after',
  async sluice(ground) {
    const stage = await startStage(ground);
    const { receiver } = ground;
    const park = async (first_ms: number, step_ms: number): Promise<void> => {
      const tasks = Array.from({ length: DUE_TASKS }, (_, i) => {
        const due_ms = first_ms + Math.round(i * step_ms);
        return tableTask(`${receiver.origin}/hook?due=${due_ms}`, i, { execute_after: new Date(due_ms).toISOString() });
      });
      await stage.api.createBatches([batchBody(tasks)]);
    };
    return dueLater(ground, park, () => stage.stop());
  },
  peers: { bullmq },
  measures: [
    {
      ...{ number: '8', measure: 'lateness p99, 1,000 due at once, ms; BullMQ', value: 'sluice', better: 'lower' },
      ...{ sluice: 'sluice.at_once_p99_ms', peer: 'bullmq.at_once_p99_ms', must: 65, aim: 45 },
    },
    {
      ...{ number: '8', measure: 'lateness p99, spread over 5 s, ms; BullMQ', value: 'sluice', better: 'lower' },
      ...{ sluice: 'sluice.spread_p99_ms', peer: 'bullmq.spread_p99_ms', must: 5, aim: 3 },
    },
    // The same two as ratios, since a burst is as quick as its machine: 65 and 45, 5 and 3 were set where BullMQ had 200 and 97.
    timesBelowBullmq('8', 'lateness p99, 1,000 due at once, ms', 'at_once_p99_ms', 3.08, 4.44),
    timesBelowBullmq('8', 'lateness p99, spread over 5 s, ms', 'spread_p99_ms', 19.4, 32.3),
  ],
};

async function bullmq(ground: Ground): Promise<Side> {
  const { receiver } = ground;
  const peer = await Bullmq.start(receiver.origin, SETUP);
  const park = async (first_ms: number, step_ms: number): Promise<void> => {
    await peer.prepare(DUE_TASKS, `${receiver.origin}/hook`, BYTES, { first_ms, step_ms, in_url: true });
    await peer.add();
  };
  return dueLater(ground, park, () => peer.stop());
}

type Park = (first_ms: number, step_ms: number) => Promise<void>;

async function dueLater(ground: Ground, park: Park, close: () => Promise<void>): Promise<Side> {
  const { receiver, smoke } = ground;
  if (!smoke) for (let run = 0; run < WARM_RUNS; run++) await delays(receiver, park, WARM_LEAD_MS, 0);
  return { once: () => both(ground, park), close };
}

async function both({ receiver, smoke }: Ground, park: Park): Promise<Record<string, number>> {
  const lead_ms = smoke ? 300 : 1_000;
  const at_once = await delays(receiver, park, lead_ms, 0);
  const spread = await delays(receiver, park, lead_ms, smoke ? 500 : 5_000);
  return {
    at_once_p50_ms: percentile(at_once, 0.5),
    at_once_p99_ms: percentile(at_once, 0.99),
    spread_p50_ms: percentile(spread, 0.5),
    spread_p99_ms: percentile(spread, 0.99),
  };
}

async function delays(receiver: Receiver, park: Park, lead_ms: number, over_ms: number): Promise<number[]> {
  await receiver.reset();
  await park(Date.now() + lead_ms, over_ms / DUE_TASKS);
  await receiver.received(DUE_TASKS);
  await exactly(receiver, DUE_TASKS);
  return receiver.delays_ms();
}
