// One batch alone, from its create until the last callback has come and the batch says that all its tasks are completed; with
// BullMQ a flow: a parent that starts when all its children are completed.
import { Bullmq, type BullmqSetup, FAST_SETUPS } from '../lib/bullmq.ts';
import { best } from '../lib/peer.ts';
import { median } from '../lib/stats.ts';
import { BYTES, exactly, type Ground, type Row, type Side, startStage, tableBodies, WARM_UP } from './row.ts';

const SIZES = [1_000, 10_000] as const;
const TRIALS = 3;
/** Of each size in one turn, one after the other: a single one of 50 ms is what the machine did in these 50 ms. */
const IN_A_ROW = 5;
/** Of both sizes, before anything is measured. */
const WARM_ROUNDS = Math.ceil(WARM_UP / (SIZES[0] + SIZES[1]));

export const flow: Row = {
  name: 'flow',
  what: `one batch of 1,000 and of 10,000 tasks: from its create to the last callback and the final stats; the median of ${IN_A_ROW} in a row`,
  sluice,
  peers: { bullmq },
  measures: [
    ...SIZES.map((size) => figure(size, 'ms', 'create → last callback and final stats', 5, 7)),
    ...SIZES.map((size) => figure(size, 'first_ms', 'the first after a rest', null, null)),
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
  const run = async (size: number): Promise<number> => {
    const bodies = tableBodies(`${receiver.origin}/hook`, size, {}, size);
    await receiver.reset();
    const from_ms = performance.now();
    const [ids] = await Promise.all([api.createBatches(bodies), receiver.received(size)]);
    await api.completed(ids, 0);
    const ms = performance.now() - from_ms;
    await exactly(receiver, size);
    return ms;
  };
  for (let i = 0; i < (ground.smoke ? 0 : WARM_ROUNDS); i++) for (const size of SIZES) await run(size);
  return { once: () => inARow(ground, run), close: () => stage.stop() };
}

async function bullmq(ground: Ground): Promise<Side> {
  const { receiver, smoke } = ground;
  const run = async (peer: Bullmq, size: number): Promise<number> => {
    await peer.prepare(size, `${receiver.origin}/hook`, BYTES);
    await receiver.reset();
    const from_ms = performance.now();
    await Promise.all([peer.addFlow(), receiver.received(size)]);
    await peer.flowEnded();
    const ms = performance.now() - from_ms;
    await exactly(receiver, size);
    return ms;
  };
  const warmed = async (setup: BullmqSetup, rounds: number): Promise<Bullmq> => {
    const peer = await Bullmq.start(receiver.origin, setup);
    for (let i = 0; i < (smoke ? 0 : rounds); i++) for (const size of SIZES) await run(peer, size);
    return peer;
  };
  const setup = await best(smoke ? [FAST_SETUPS[0]] : FAST_SETUPS, async (tried) => {
    const peer = await warmed(tried, TRIALS);
    const ms: number[] = [];
    for (let i = 0; i < TRIALS; i++) ms.push((await run(peer, 1_000)) + (await run(peer, 10_000)));
    await peer.stop();
    return 1_000 / median(ms);
  });
  const peer = await warmed(setup, WARM_ROUNDS);
  const used = { workers: setup.workers, concurrency: setup.concurrency };
  return { once: async () => ({ ...(await inARow(ground, (size) => run(peer, size))), ...used }), close: () => peer.stop() };
}

/** The first of each size comes after a rest, in which connections were closed. */
async function inARow({ smoke }: Ground, run: (size: number) => Promise<number>): Promise<Record<string, number>> {
  const figures: Record<string, number> = {};
  for (const size of SIZES) {
    const first = await run(size);
    const ms = [first];
    while (!smoke && ms.length < IN_A_ROW) ms.push(await run(size));
    figures[`first_ms_${size}`] = first;
    figures[`ms_${size}`] = median(ms);
  }
  return figures;
}
