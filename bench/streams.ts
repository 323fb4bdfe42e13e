// What it costs to be watched, and how soon those who watch know: WebSockets on the streams of batches, ten on each.
import { execFileSync } from 'node:child_process';
import { type Bench, cpuEach, cpuMark, type Figures, type Stage } from './lib/bench.ts';
import { BATCH_TASKS, batchBody, task } from './lib/payload.ts';
import { Helper } from './lib/process.ts';
import type { PublishAnswer, PublishQuestion } from './lib/publish.process.ts';
import { median, medianOf, percentile } from './lib/stats.ts';
import type { SubscribersAnswer, SubscribersQuestion } from './lib/subscribers.process.ts';

const PER_BATCH = 10;
const CALLBACKS_PER_S = 1_000;
/** For what is open beside the streams; the engine itself keeps a fifth of its descriptors for that. */
const OTHER_FILES = 500;

type Watching = 'nobody' | 'progress' | 'tasks';

interface LoadRun {
  tasks_s: number;
  /** Of the engine, for each task. */
  cpu_us: number;
  told: SubscribersAnswer;
}

export const streams: Bench = {
  name: 'streams',
  what: '1,000 and 10,000 WebSockets at 1,000 callbacks/s, from the answer to a task to the frame that counts it; 1,000 at full load, a bare publish loop beside them',
  async run(stage) {
    const subscribers = await Helper.start(new URL('./lib/subscribers.process.ts', import.meta.url));
    const publisher = await Helper.start(new URL('./lib/publish.process.ts', import.meta.url));
    const many = stage.smoke ? 100 : 1_000;
    try {
      return {
        subscribers: many,
        ...(await delays(stage, subscribers, many, '1k')),
        ...(await delays(stage, subscribers, many * 10, '10k')),
        ...(await fullLoad(stage, subscribers, publisher, many)),
      };
    } finally {
      await subscribers.stop();
      await publisher.stop();
    }
  },
};

/** Batches that cannot end yet, each with one task, which is called at once. */
async function heldBatches({ api, receiver }: Stage, count: number): Promise<string[]> {
  const bodies = Array.from({ length: count }, (_, group) => batchBody([hook(receiver.origin, group, 0)], { options: { hold: true } }));
  await receiver.reset();
  const [ids] = await Promise.all([api.createBatches(bodies), receiver.received(count)]);
  return ids;
}

function hook(origin: string, group: number, number: number, fields: object = {}): object {
  return task(`${origin}/hook?task=${group}`, number, fields);
}

async function watch({ engine }: Stage, subscribers: Helper, ids: readonly string[], how: Watching, note: boolean): Promise<void> {
  const paths = ids.map((id) => `/v1/batches/${id}/stream${how === 'tasks' ? '?tasks=true' : ''}`);
  const question: SubscribersQuestion = { type: 'open', url: engine.url, token: engine.token, paths, each: PER_BATCH, note };
  await subscribers.ask(question);
}

/** With more subscribers there are more batches, and less happens in each: callbacks and frames a second are the same. */
async function delays(stage: Stage, subscribers: Helper, count: number, name: string): Promise<Figures> {
  if (count + OTHER_FILES > 0.8 * filesMax()) return { [`p50_ms_${name}`]: null, [`p99_ms_${name}`]: null };
  const { api, receiver } = stage;
  const batches = count / PER_BATCH;
  const duration_ms = stage.smoke ? 1_000 : 10_000;
  const tasks = (duration_ms * CALLBACKS_PER_S) / 1_000 / batches;
  const ids = await heldBatches(stage, batches);
  await watch(stage, subscribers, ids, 'progress', true);
  // So that all are there before the first is due.
  const first_ms = Date.now() + 1_000 + 5 * batches;
  const dueOf = (at: number, i: number): Date => new Date(first_ms + ((i + at / batches) * duration_ms) / tasks);
  const dueTasks = (at: number): object[] =>
    Array.from({ length: tasks }, (_, i) => hook(receiver.origin, at, i, { execute_after: dueOf(at, i).toISOString() }));
  await api.fillBatches(ids, (at) => batchBody(dueTasks(at)));
  const { told, cut } = await subscribers.ask<SubscribersAnswer>({ type: 'closed' } satisfies SubscribersQuestion);
  if (cut > 0) throw new Error(`${cut} of ${count} streams were cut off`);
  const answers_ms = await receiver.answers_ms();
  const delays_ms = told.flatMap(([at, from, to, at_ms]) => (answers_ms[at] ?? []).slice(from, to).map((ms) => at_ms - ms));
  return { [`p50_ms_${name}`]: percentile(delays_ms, 0.5), [`p99_ms_${name}`]: percentile(delays_ms, 0.99) };
}

/** As many as a process of this user may have open. */
function filesMax(): number {
  const text = execFileSync('sh', ['-c', 'ulimit -n'], { encoding: 'utf8' }).trim();
  return text === 'unlimited' ? Number.POSITIVE_INFINITY : Number(text);
}

async function fullLoad(stage: Stage, subscribers: Helper, publisher: Helper, count: number): Promise<Figures> {
  const runs: Record<Watching, LoadRun[]> = { nobody: [], progress: [], tasks: [] };
  const bare: SubscribersAnswer[] = [];
  const bare_us: number[] = [];
  await loadRun(stage, subscribers, count / PER_BATCH / 10, 'nobody');
  for (let i = 0; i < (stage.smoke ? 1 : 3); i++) {
    runs.nobody.push(await loadRun(stage, subscribers, count / PER_BATCH, 'nobody'));
    runs.progress.push(await loadRun(stage, subscribers, count / PER_BATCH, 'progress'));
    const detailed = await loadRun(stage, subscribers, count / PER_BATCH, 'tasks');
    runs.tasks.push(detailed);
    const from_s = publisher.cpu_s();
    const told = await publishRun(subscribers, publisher, count / PER_BATCH, detailed.told);
    bare_us.push(((publisher.cpu_s() - from_s) * 1e6) / told.frames);
    bare.push(told);
  }
  const perS = ({ frames, ms }: SubscribersAnswer): number => (frames / ms) * 1_000;
  const tasks = (count / PER_BATCH) * BATCH_TASKS;
  return {
    tasks_per_s: medianOf(runs.nobody, ({ tasks_s }) => tasks_s),
    tasks_per_s_watched: medianOf(runs.progress, ({ tasks_s }) => tasks_s),
    engine_cpu_us: medianOf(runs.nobody, ({ cpu_us }) => cpu_us),
    engine_cpu_us_watched: medianOf(runs.progress, ({ cpu_us }) => cpu_us),
    engine_cpu_us_every_task_told: medianOf(runs.tasks, ({ cpu_us }) => cpu_us),
    frames_per_s: medianOf(runs.tasks, ({ told }) => perS(told)),
    bare_frames_per_s: medianOf(bare, perS),
    ratio_to_bare: median(runs.tasks.map(({ told }, i) => perS(told) / perS(bare[i] ?? told))),
    frame_cpu_us: median(runs.tasks.map((run, i) => ((run.cpu_us - (runs.nobody[i]?.cpu_us ?? Number.NaN)) * tasks) / run.told.frames)),
    bare_frame_cpu_us: median(bare_us),
    frame_bytes: medianOf(runs.tasks, ({ told }) => told.bytes / told.frames),
    streams_cut: runs.tasks.reduce((sum, { told }) => sum + told.cut, 0),
  };
}

/** Batches of 1,000 tasks, watched or not: from adding the tasks until all batches are completed. */
async function loadRun(stage: Stage, subscribers: Helper, batches: number, how: Watching): Promise<LoadRun> {
  const { api, receiver } = stage;
  const ids = await heldBatches(stage, batches);
  if (how !== 'nobody') await watch(stage, subscribers, ids, how, false);
  const bodies = ids.map((_, group) => batchBody(Array.from({ length: BATCH_TASKS - 1 }, (_, i) => hook(receiver.origin, group, i))));
  const count = batches * BATCH_TASKS;
  const cpu = cpuMark(stage);
  const from_ms = performance.now();
  await Promise.all([api.fillBatches(ids, (at) => bodies[at] ?? Buffer.of()), receiver.received(count)]);
  await api.completed(ids);
  const ms = performance.now() - from_ms;
  // Frames that are still on their way are part of the cost.
  const told = await subscribers.ask<SubscribersAnswer>({ type: 'closed' } satisfies SubscribersQuestion);
  return { tasks_s: (count / ms) * 1_000, cpu_us: cpuEach(cpu, cpuMark(stage), count).engine, told };
}

/** As many frames of that size by a bare loop, to the same subscribers. */
async function publishRun(subscribers: Helper, publisher: Helper, topics: number, like: SubscribersAnswer): Promise<SubscribersAnswer> {
  const paths = Array.from({ length: topics }, (_, i) => `/${i}`);
  const url = `http://127.0.0.1:${publisher.port}`;
  await subscribers.ask({ type: 'open', url, token: '', paths, each: PER_BATCH, note: false } satisfies SubscribersQuestion);
  const closed = subscribers.ask<SubscribersAnswer>({ type: 'closed' } satisfies SubscribersQuestion);
  const question: PublishQuestion = {
    topics: paths,
    frames: Math.round(like.frames / topics / PER_BATCH),
    frame_bytes: Math.round(like.bytes / like.frames),
  };
  await publisher.ask<PublishAnswer>(question);
  return closed;
}
