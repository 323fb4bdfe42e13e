// One batch alone, from its create until the last callback has come and the batch says that all its tasks are completed; with
// BullMQ a flow: a parent that starts when all its children are completed.
import { Bullmq, type BullmqSetup, FAST_SETUPS } from '../lib/bullmq.ts';
import { best } from '../lib/peer.ts';
import type { Receiver } from '../lib/receiver.ts';
import { median } from '../lib/stats.ts';
import { BYTES, exactly, type Ground, type Row, type Side, startStage, tableBodies, WARM_UP } from './row.ts';

const SIZES = [1_000, 10_000] as const;
const TRIALS = 3;
/** Of each size in one turn, one after the other: a single one of 50 ms is what the machine did in these 50 ms, and five are a quarter of a second; of 10,000 they are two. */
const IN_A_ROW = { 1000: 15, 10000: 5 } as const;
type Size = (typeof SIZES)[number];
/** One batch of so many; its milliseconds. */
type Run = (size: Size) => Promise<number>;
/** Of both sizes, before anything is measured. */
const WARM_ROUNDS = Math.ceil(WARM_UP / (SIZES[0] + SIZES[1]));

export const flow: Row = {
  name: 'flow',
  what: `one batch of 1,000 and of 10,000 tasks: from its create to the last callback and the final stats; the median of ${SIZES.map((size) => IN_A_ROW[size]).join(' and ')} in a row`,
  sluice,
  peers: { bullmq },
  measures: [
    ...SIZES.map((size) => figure(size, 'ms', 'create → last callback and final stats', 5, 7)),
    figure(SIZES[0], 'first_ms', 'the first after a rest', null, null),
  ],
};

function figure(size: number, name: string, what: string, must: number | null, aim: number | null): Row['measures'][number] {
  const measure = `batch of ${size.toLocaleString('en-US')}, ${what}, ms: BullMQ Flow ÷ Sluice`;
  const [value, better] = ['peer/sluice', 'higher'] as const;
  return { number: '4', measure, sluice: `sluice.${name}_${size}`, peer: `bullmq.${name}_${size}`, value, better, must, aim };
}

async function sluice(ground: Ground): Promise<Side> {
  const stage = await startStage(ground);
  const { api, receiver } = stage;
  let bodies: Buffer[] = [];
  const build = async (size: Size): Promise<void> => {
    bodies = tableBodies(`${receiver.origin}/hook`, size, {}, size);
  };
  const run = runOf(receiver, build, async (size) => {
    const [ids] = await Promise.all([api.createBatches(bodies), receiver.received(size)]);
    await api.completed(ids, 0);
  });
  await warmUp(run, ground.smoke ? 0 : WARM_ROUNDS);
  return { once: () => inARow(ground, run), close: () => stage.stop() };
}

async function bullmq(ground: Ground): Promise<Side> {
  const { receiver, smoke } = ground;
  const warmed = async (setup: BullmqSetup, rounds: number): Promise<{ peer: Bullmq; run: Run }> => {
    const peer = await Bullmq.start(receiver.origin, setup);
    const build = (size: Size): Promise<unknown> => peer.prepare(size, `${receiver.origin}/hook`, BYTES);
    const run = runOf(receiver, build, async (size) => {
      await Promise.all([peer.addFlow(), receiver.received(size)]);
      await peer.flowEnded();
    });
    await warmUp(run, smoke ? 0 : rounds);
    return { peer, run };
  };
  const setup = await best(smoke ? [FAST_SETUPS[0]] : FAST_SETUPS, async (tried) => {
    const { peer, run } = await warmed(tried, TRIALS);
    const ms: number[] = [];
    for (let i = 0; i < TRIALS; i++) ms.push((await run(1_000)) + (await run(10_000)));
    await peer.stop();
    return 1_000 / median(ms);
  });
  const { peer, run } = await warmed(setup, WARM_ROUNDS);
  const used = { workers: setup.workers, concurrency: setup.concurrency };
  return { once: async () => ({ ...(await inARow(ground, run)), ...used }), close: () => peer.stop() };
}

async function warmUp(run: Run, rounds: number): Promise<void> {
  for (let i = 0; i < rounds; i++) for (const size of SIZES) await run(size);
}

/**
 * The milliseconds of `work`, in which the receiver is called as often as the batch has tasks. What it sends is built before, and only where the size changes: what
 * is left of each building would be collected while the time is taken.
 */
function runOf(receiver: Receiver, build: (size: Size) => Promise<unknown>, work: (size: Size) => Promise<void>): Run {
  let built: Size | null = null;
  return async (size) => {
    if (size !== built) await build(size);
    built = size;
    await receiver.reset();
    const from_ms = performance.now();
    await work(size);
    const ms = performance.now() - from_ms;
    await exactly(receiver, size);
    return ms;
  };
}

/** The first comes after a rest, in which connections were closed. */
async function inARow({ smoke }: Ground, run: Run): Promise<Record<string, number>> {
  const figures: Record<string, number> = {};
  for (const size of SIZES) {
    const first = await run(size);
    const ms = [first];
    if (size === SIZES[0]) figures[`first_ms_${size}`] = first;
    while (!smoke && ms.length < IN_A_ROW[size]) ms.push(await run(size));
    figures[`ms_${size}`] = median(ms);
  }
  return figures;
}
