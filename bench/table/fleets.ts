// What it costs to be many: CPU of all servers and all of Redis for each task, batches of 1,000 created at a fixed pace, dealt
// to the servers; four processes on a Cluster of three masters, and one process on one Redis.
import { Api } from '../lib/api.ts';
import { pause } from '../lib/bench.ts';
import { Fleet } from '../lib/fleet.ts';
import { EACH, exactly, type Ground, type Row, type Side, tableBodies } from './row.ts';

const OFFERED_PER_S = 5_000;
/**
 * Tasks that each server has made before anything is measured, so many times, as fast as it can: half a minute of the life of a fleet. What Node compiles while it gets
 * warm it compiles in each process, and it ends: after 40,000 once the first five repeats of a fleet took 78, 54, 50, 54 and 40 µs a task.
 */
const WARM_UP_EACH = 40_000;
const WARM_UPS = 5;
/**
 * And so many turns of what is measured, in which what is called a few times a second is compiled, too: without them five turns of a fleet took 37, 40, 34, 33 and 32 µs a task,
 * one process 30, 29, 35, 30 and 27.
 */
const WARM_TURNS = 4;
const SIZES = [
  { name: 'many', processes: 4, masters: 3 },
  { name: 'one', processes: 1, masters: 1 },
] as const;

export const fleets: Row = {
  name: 'fleets',
  what: 'CPU of all servers and all of Redis for each task at 5,000 tasks a second: 4 processes and 3 masters, 1 and 1',
  sluice,
  peers: {},
  measures: [
    {
      ...{
        number: '14',
        measure: 'CPU a task at 5,000/s, 4 processes and 3 masters ÷ 1 and 1, one callback thread each, µs',
        value: 'sluice/peer',
        better: 'lower',
      },
      ...{ sluice: 'sluice.cpu_us_many', peer: 'sluice.cpu_us_one', must: 1.3, aim: 1.1 },
    },
  ],
};

async function sluice(ground: Ground): Promise<Side> {
  const all: { name: string; fleet: Fleet; apis: Api[] }[] = [];
  for (const { name, processes, masters } of SIZES) {
    const fleet = await Fleet.start({ entry: ground.entry, processes: ground.smoke ? 1 : processes, masters });
    all.push({ name, fleet, apis: fleet.everywhere.map((at) => new Api(at)) });
  }
  const seconds = ground.smoke ? 1 : 8;
  for (const { apis } of all) {
    for (let i = 0; i < (ground.smoke ? 1 : WARM_UPS); i++) await warmUp(ground, apis);
  }
  for (let i = 0; i < (ground.smoke ? 0 : WARM_TURNS); i++) {
    for (const { fleet, apis } of all) await offer(ground, fleet, apis, seconds);
  }
  let turn = 0;
  const once = async (): Promise<Record<string, number>> => {
    const figures: Record<string, number> = {};
    for (const { name, fleet, apis } of turn++ % 2 === 0 ? all : all.toReversed()) {
      const { cpu_us, tasks_per_s } = await offer(ground, fleet, apis, seconds);
      figures[`cpu_us_${name}`] = cpu_us;
      figures[`tasks_per_s_${name}`] = tasks_per_s;
    }
    return figures;
  };
  const close = async (): Promise<void> => {
    for (const { fleet, apis } of all) {
      await Promise.all(apis.map((api) => api.close()));
      await fleet.stop();
    }
  };
  return { once, close };
}

async function warmUp({ receiver, smoke }: Ground, apis: readonly Api[]): Promise<void> {
  const count = (smoke ? EACH : WARM_UP_EACH) * apis.length;
  await receiver.reset();
  const called = receiver.received(count);
  await Promise.all(
    apis.map(async (api) => api.completed(await api.createBatches(tableBodies(`${receiver.origin}/hook`, count / apis.length)))),
  );
  await called;
}

/** CPU of each task, from the first create until all are completed; the pace tells whether the load was kept up with. */
async function offer(
  { receiver }: Ground,
  fleet: Fleet,
  apis: readonly Api[],
  seconds: number,
): Promise<{ cpu_us: number; tasks_per_s: number }> {
  const count = OFFERED_PER_S * seconds;
  const bodies = tableBodies(`${receiver.origin}/hook`, count);
  await receiver.reset();
  const from_s = fleet.cpu_s();
  const from_ms = performance.now();
  const called = receiver.received(count);
  const creates: Promise<string[]>[] = [];
  for (const [i, body] of bodies.entries()) {
    await pause(from_ms + (i * EACH * 1_000) / OFFERED_PER_S - performance.now());
    creates.push(apis[i % apis.length]?.createBatches([body]) ?? Promise.resolve([]));
  }
  const ids = (await Promise.all(creates)).flat();
  await called;
  await apis[0]?.completed(ids);
  const passed_s = (performance.now() - from_ms) / 1_000;
  const cpu_us = ((fleet.cpu_s() - from_s) * 1e6) / count;
  await exactly(receiver, count);
  return { cpu_us, tasks_per_s: count / passed_s };
}
