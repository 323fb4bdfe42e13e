// Whether many waiting tasks slow down those that are due: the pace end to end, in engines of their own, in turns, that keep
// ten thousand, a million and ten million tasks due in an hour. What does not fit into this machine is left out.
import { readFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { freemem, tmpdir } from 'node:os';
import { pause, type Stage } from '../lib/bench.ts';
import { runSluice } from './end-to-end.ts';
import { EACH, type Ground, HOUR_MS, type Row, type Side, startStage, tableBodies, WARM_UP } from './row.ts';

const MILLION = 1_000_000;
/** Runs of each engine in a repeat, there and back twice, so that a machine that becomes slower meanwhile does so for all: one of two seconds differs by 8 % from the next. */
const RUNS = 4;
const FILL_EACH = 10_000;
/** Batches that are under way or read ahead while an engine is filled. */
const FILL_BATCHES = 40;
/** Of memory: twice what Redis keeps, since its append-only file is rewritten by a copy. Of disk: the same. */
const BYTES_EACH = 1_000;

export const backlog: Row = {
  name: 'backlog',
  what: 'end to end, as above, while 10,000, 1,000,000 and 10,000,000 tasks wait for their time',
  sluice,
  peers: {},
  measures: [
    {
      ...{ number: '11', measure: 'tasks/s with 1,000,000 waiting ÷ with 10,000', value: 'sluice/peer', better: 'higher' },
      ...{ sluice: 'sluice.tasks_per_s_1000000', peer: 'sluice.tasks_per_s_10000', must: 0.95, aim: 0.97 },
    },
    {
      ...{ number: '11', measure: 'tasks/s with 10,000,000 waiting ÷ with 10,000', value: 'sluice/peer', better: 'higher' },
      ...{ sluice: 'sluice.tasks_per_s_10000000', peer: 'sluice.tasks_per_s_10000', must: null, aim: 0.97 },
    },
  ],
};

async function sluice(ground: Ground): Promise<Side> {
  const levels: { waiting: number; stage: Awaited<ReturnType<typeof startStage>> }[] = [];
  for (const waiting of ground.smoke ? [1_000, 5_000] : [10_000, MILLION, 10 * MILLION]) {
    if (!(await fits(waiting))) {
      process.stderr.write(`  ${waiting} waiting tasks do not fit into this machine: left out\n`);
      continue;
    }
    const stage = await startStage(ground);
    levels.push({ waiting, stage });
    await fill(stage, waiting);
    await runSluice(stage, ground.smoke ? EACH : WARM_UP, '/hook');
  }
  const count = ground.smoke ? 1_000 : 100_000;
  let turn = 0;
  const once = async (): Promise<Record<string, number>> => {
    const at = turn++ % levels.length;
    const there = [...levels.slice(at), ...levels.slice(0, at)];
    const seconds = new Map(levels.map(({ waiting }) => [waiting, 0]));
    for (let run = 0; run < RUNS; run++) {
      for (const { waiting, stage } of run % 2 === 0 ? there : [...there].reverse()) {
        const { tasks_per_s = Number.NaN } = await runSluice(stage, count, '/hook');
        seconds.set(waiting, (seconds.get(waiting) ?? 0) + count / tasks_per_s);
      }
    }
    return Object.fromEntries([...seconds].map(([waiting, all]) => [`tasks_per_s_${waiting}`, (RUNS * count) / all]));
  };
  const close = async (): Promise<void> => {
    for (const { stage } of levels) await stage.stop();
  };
  return { once, close };
}

async function fits(waiting: number): Promise<boolean> {
  if (waiting <= MILLION) return true;
  const disk = await statfs(tmpdir());
  return availableBytes() > waiting * BYTES_EACH && disk.bavail * disk.bsize > waiting * BYTES_EACH;
}

/** What may be used without swapping, where the system tells it. */
function availableBytes(): number {
  try {
    return Number(/^MemAvailable:\s+(\d+)/m.exec(readFileSync('/proc/meminfo', 'utf8'))?.[1]) * 1_024;
  } catch {
    return freemem();
  }
}

async function fill({ api, engine, receiver }: Stage, waiting: number): Promise<void> {
  const parked = { execute_after: new Date(Date.now() + HOUR_MS).toISOString() };
  const each = Math.min(FILL_EACH, waiting);
  const [body] = tableBodies(`${receiver.origin}/hook`, each, parked, each);
  if (body === undefined) return;
  for (let from = 0; from < waiting; from += each * FILL_BATCHES) {
    const batches = Math.min(FILL_BATCHES, (waiting - from) / each);
    await api.createBatches(Array.from({ length: batches }, () => body));
  }
  while (/^aof_rewrite_in_progress:1/m.test(await engine.redis.info('persistence'))) await pause(100);
}
