// From the first create until every callback is counted and every task is completed: how many a second, and the CPU of every
// process that has a part in it. Also with a receiver that takes 50 ms, where what is in flight decides.
import type { Stage } from '../lib/bench.ts';
import { Bullmq, type BullmqSetup, FAST_SETUPS } from '../lib/bullmq.ts';
import { Graphile } from '../lib/graphile.ts';
import { best } from '../lib/peer.ts';
import type { Receiver } from '../lib/receiver.ts';
import {
  BYTES,
  exactly,
  type Ground,
  ownCpuSeconds,
  type Row,
  type Side,
  startStage,
  tableBodies,
  timesBelowBullmq,
  WARM_UP,
} from './row.ts';

/** Before one of several set-ups of a peer is tried. */
const TRY_WARM_UP = 5_000;
const SLOW_MS = 50;
const LOOK_AGAIN_MS = 2;
/** The last batches are looked at until they are completed; the others are verified when the time is taken. */
const WATCHED = 3;

/** CPU seconds so far: who creates, who works, the store, the receiver. */
type Cpu = Record<'client' | 'engine' | 'store' | 'receiver', number>;

interface Work {
  count: number;
  path: string;
  setups: readonly [BullmqSetup, ...BullmqSetup[]];
}

export const endToEnd: Row = {
  name: 'end_to_end',
  what: 'tasks of 200 bytes in batches of 1,000: created, called, completed; CPU of all processes, client and receiver too',
  sluice: (ground) => sluice(ground, fast(ground)),
  peers: {
    bullmq: (ground) => bullmq(ground, fast(ground)),
    graphile: (ground) => graphile(ground, fast(ground)),
  },
  measures: [
    figure('1', 'end to end, tasks/s ÷ BullMQ', 'bullmq', 3, 4),
    figure('1', 'end to end, tasks/s ÷ graphile-worker', 'graphile', null, null),
    {
      ...{ number: '2', measure: 'CPU a task, all processes (client and receiver too), µs; BullMQ', value: 'sluice', better: 'lower' },
      ...{ sluice: 'sluice.total_cpu_us', peer: 'bullmq.total_cpu_us', must: 36, aim: 28 },
    },
    {
      ...{
        number: '2',
        measure: 'of it without client and receiver, µs; BullMQ’s worker and Redis',
        value: 'sluice',
        better: 'lower',
      },
      ...{ sluice: 'sluice.server_cpu_us', peer: 'bullmq.server_cpu_us', must: null, aim: null },
    },
    {
      ...{ number: '3', measure: 'Redis CPU a task, µs; BullMQ', value: 'sluice', better: 'lower' },
      ...{ sluice: 'sluice.store_cpu_us', peer: 'bullmq.store_cpu_us', must: 5.4, aim: 4 },
    },
    // The same two as ratios, since microseconds are those of a machine: 36 and 28, 5.4 and 4 were set where BullMQ took 117 and 42.9.
    timesBelowBullmq('2', 'CPU a task, all processes, µs', 'total_cpu_us', 3.25, 4.18),
    timesBelowBullmq('3', 'Redis CPU a task, µs', 'store_cpu_us', 7.94, 10.7),
  ],
};

export const slowReceiver: Row = {
  name: 'slow_receiver',
  what: `the same with a receiver that takes ${SLOW_MS} ms`,
  sluice: (ground) => sluice(ground, slow(ground)),
  peers: { bullmq: (ground) => bullmq(ground, slow(ground)) },
  measures: [figure('7', `receiver that takes ${SLOW_MS} ms, 50,000 tasks, one engine process, tasks/s ÷ BullMQ`, 'bullmq', 2.5, 3.5)],
};

function figure(number: string, measure: string, peer: string, must: number | null, aim: number | null): Row['measures'][number] {
  const [value, better] = ['sluice/peer', 'higher'] as const;
  return { number, measure, sluice: 'sluice.tasks_per_s', peer: `${peer}.tasks_per_s`, value, better, must, aim };
}

function fast({ smoke }: Ground): Work {
  const [first, ...others] = FAST_SETUPS;
  return { count: smoke ? 2_000 : 100_000, path: '/hook', setups: smoke ? [first] : [first, ...others] };
}

function slow({ smoke }: Ground): Work {
  const setup = (workers: number, concurrency: number): BullmqSetup => ({ workers, concurrency, producers: 1, at_once: 2 });
  const path = `/hook?take=${SLOW_MS}`;
  if (smoke) return { count: 2_000, path, setups: [setup(1, 500)] };
  return { count: 50_000, path, setups: [setup(1, 1_000), setup(1, 2_000), setup(2, 500), setup(2, 1_000)] };
}

async function sluice(ground: Ground, { count, path }: Work): Promise<Side> {
  const stage = await startStage(ground);
  await runSluice(stage, warmUp(ground, count), path);
  return { once: () => runSluice(stage, count, path), close: () => stage.stop() };
}

/** So many tasks in batches of 1,000, from the first POST until all are completed. */
export async function runSluice({ api, engine, receiver }: Stage, count: number, path: string): Promise<Record<string, number>> {
  const bodies = tableBodies(`${receiver.origin}${path}`, count);
  let ids: string[] = [];
  const cpu = (): Cpu => ({ client: ownCpuSeconds(), ...storeOf(engine.cpu_s()), receiver: receiver.cpu_s() });
  const figures = await measured(receiver, count, cpu, async () => {
    [ids] = await Promise.all([api.createBatches(bodies), receiver.received(count)]);
    await api.completed(ids.slice(-WATCHED));
  });
  const completed = await api.completed(ids);
  if (completed !== count) throw new Error(`${completed} of ${count} tasks are completed`);
  return figures;
}

async function bullmq(ground: Ground, { count, path, setups }: Work): Promise<Side> {
  const { receiver } = ground;
  const url = `${receiver.origin}${path}`;
  const run = async (peer: Bullmq, jobs: number): Promise<Record<string, number>> => {
    await peer.prepare(jobs, url, BYTES);
    return measured(
      receiver,
      jobs,
      () => cpuOf(peer.cpu_s(), receiver),
      async () => {
        await Promise.all([peer.add(), receiver.received(jobs)]);
        while ((await peer.left()) > 0) await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
      },
    );
  };
  const setup = await best(setups, async (tried) => {
    const peer = await Bullmq.start(receiver.origin, tried);
    await run(peer, TRY_WARM_UP);
    const { tasks_per_s } = await run(peer, 20_000);
    await peer.stop();
    return tasks_per_s ?? 0;
  });
  const peer = await Bullmq.start(receiver.origin, setup);
  await run(peer, warmUp(ground, count));
  const used = { workers: setup.workers, concurrency: setup.concurrency };
  return { once: async () => ({ ...(await run(peer, count)), ...used }), close: () => peer.stop() };
}

async function graphile(ground: Ground, { count, path }: Work): Promise<Side | string> {
  const { receiver, smoke } = ground;
  if (smoke) return 'graphile-worker is left out of the small size: it needs PostgreSQL';
  const peer = await Graphile.start(receiver.origin);
  if (typeof peer === 'string') return `graphile-worker is left out: ${peer}`;
  const run = async (jobs: number): Promise<Record<string, number>> => {
    await peer.prepare(jobs, `${receiver.origin}${path}`, BYTES);
    const figures = await measured(
      receiver,
      jobs,
      () => cpuOf(peer.cpu_s(), receiver),
      async () => {
        await Promise.all([peer.add(), receiver.received(jobs)]);
      },
    );
    await peer.tidy();
    return figures;
  };
  await run(warmUp(ground, count));
  return { once: () => run(count), close: () => peer.stop() };
}

function warmUp({ smoke }: Ground, count: number): number {
  return smoke ? count : WARM_UP;
}

function storeOf({ engine, redis }: { engine: number; redis: number }): { engine: number; store: number } {
  return { engine, store: redis };
}

function cpuOf({ clients, workers, redis }: { clients: number; workers: number; redis: number }, receiver: Receiver): Cpu {
  return { client: clients, engine: workers, store: redis, receiver: receiver.cpu_s() };
}

/** The pace of `work`, which lets the receiver be called `count` times, and what each process spends on it. */
async function measured(receiver: Receiver, count: number, cpu: () => Cpu, work: () => Promise<void>): Promise<Record<string, number>> {
  await receiver.reset();
  const from = cpu();
  const from_ms = performance.now();
  await work();
  const ms = performance.now() - from_ms;
  const to = cpu();
  await exactly(receiver, count);
  const each = (name: keyof Cpu): number => ((to[name] - from[name]) * 1e6) / count;
  const [client, engine, store] = [each('client'), each('engine'), each('store')];
  return {
    tasks_per_s: (count / ms) * 1_000,
    total_cpu_us: client + engine + store + each('receiver'),
    server_cpu_us: engine + store,
    client_cpu_us: client,
    engine_cpu_us: engine,
    store_cpu_us: store,
    receiver_cpu_us: each('receiver'),
  };
}
