// The engine shared by many: several processes and masters, an account that floods, a process that dies.
import { createServer, type Socket } from 'node:net';
import { Api } from './lib/api.ts';
import { type Bench, type Figures, pause, type Stage } from './lib/bench.ts';
import { Fleet } from './lib/fleet.ts';
import { batchBodies, batchBody, task } from './lib/payload.ts';
import { machineMs } from './lib/receiver.ts';
import { median, percentile } from './lib/stats.ts';

const OFFERED_PER_S = 2_000;
const OFFERED_PER_S_SMOKE = 500;
const LEAD_MS = 4_000;
/** Tasks of a batch: so few that all partitions have some, all the time. */
const EACH = 100;

const FLEETS = [
  [1, 1],
  [2, 1],
  [4, 1],
  [1, 3],
] as const;

export const scaleOut: Bench = {
  name: 'scale_out',
  once: true,
  what: `CPU of all servers and all of Redis for each task, at ${OFFERED_PER_S.toLocaleString('en')} tasks a second: 1, 2 and 4 processes on one Redis, and one process on a Cluster of 3 masters`,
  async run(stage) {
    const figures: Figures = {};
    for (const [processes, masters] of FLEETS) {
      if (stage.smoke && processes * masters > 1) continue;
      const where = `${processes}_processes_${masters}_masters`;
      const { cold, warm } = await offered(stage, processes, masters);
      figures[`cpu_us_${where}`] = cold.engine + cold.redis;
      figures[`warm_cpu_us_${where}`] = warm.engine + warm.redis;
      figures[`warm_redis_cpu_us_${where}`] = warm.redis;
    }
    return figures;
  },
};

function offeredPerS({ smoke }: Stage): number {
  return smoke ? OFFERED_PER_S_SMOKE : OFFERED_PER_S;
}

interface Cpu {
  engine: number;
  redis: number;
}

/**
 * CPU of each task while they come due evenly; what the processes spend without work is in it. Twice: first by servers that have just
 * been started, whose code is being compiled meanwhile (each process compiles its own, so that alone grows with their number), then again.
 */
async function offered(stage: Stage, processes: number, masters: 1 | 3): Promise<{ cold: Cpu; warm: Cpu }> {
  const fleet = await Fleet.start({ entry: stage.entry, processes, masters });
  const api = new Api(fleet.a);
  const span = async (): Promise<Cpu> => {
    const [per_s, seconds] = [offeredPerS(stage), stage.smoke ? 1 : 8];
    const ids = await dueEvenly(stage, api, per_s, seconds);
    const from = fleet.cpu();
    await stage.receiver.received(per_s * seconds);
    await api.completed(ids);
    const to = fleet.cpu();
    const each = (what: keyof Cpu): number => ((to[what] - from[what]) * 1e6) / (per_s * seconds);
    return { engine: each('engine'), redis: each('redis') };
  };
  try {
    return { cold: await span(), warm: await span() };
  } finally {
    await api.close();
    await fleet.stop();
  }
}

/** Batches whose tasks come due evenly over so many seconds; resolves when the first is about to. */
async function dueEvenly({ receiver }: Stage, api: Api, per_s: number, seconds: number): Promise<string[]> {
  const first_ms = Date.now() + LEAD_MS;
  const due = (i: number): number => first_ms + Math.round((i * 1_000) / per_s);
  await receiver.reset();
  const batches = (per_s * seconds) / EACH;
  const bodies = Array.from({ length: batches }, (_, batch) => {
    const tasks = Array.from({ length: EACH }, (_, i) => {
      const due_ms = due(i * batches + batch);
      return task(`${receiver.origin}/hook?due=${due_ms}`, i, { execute_after: new Date(due_ms).toISOString() });
    });
    return batchBody(tasks);
  });
  const ids = await api.createBatches(bodies);
  await pause(first_ms - Date.now() - 100);
  return ids;
}

const GAP_MS = 50;

export const flood: Bench = {
  name: 'flood',
  what: 'POST /v1/tasks of account B, 20 a second, from sending it to its callback: alone, beside 100,000 waiting tasks of account A, beside its 10,000 batches of one task, beside its host that never answers',
  async run(stage) {
    const fleet = await Fleet.start({ entry: stage.entry, processes: 1, masters: 1 });
    const [a, b] = [new Api(fleet.a), new Api(fleet.b)];
    const silent = await startSilent();
    const other = `${stage.receiver.origin}/hook`;
    const count = stage.smoke ? 2_000 : 100_000;
    const figures: Figures = {};
    const measure = async (name: string): Promise<void> => {
      const delays_ms = await singles(stage, b);
      figures[`${name}_p50_ms`] = percentile(delays_ms, 0.5);
      figures[`${name}_p99_ms`] = percentile(delays_ms, 0.99);
    };
    try {
      await a.completed(await a.createBatches(batchBodies(() => other, Math.min(count, 20_000))));
      await measure('alone');
      const many = await a.createBatches(batchBodies(() => other, count));
      await measure('waiting');
      await a.completed(many);
      const small = a.createBatches(batchBodies(() => other, count / 10, {}, {}, 1));
      await measure('batches_of_one');
      await a.completed((await small).slice(-1));
      const held = await a.createBatches(batchBodies(() => silent.origin, count / 20, { timeout: 600 }));
      await measure('silent_host');
      await a.cancelBatches(held);
      return figures;
    } finally {
      silent.close();
      await Promise.all([a.close(), b.close()]);
      await fleet.stop();
    }
  },
};

/** Milliseconds from sending each to its callback. */
async function singles({ receiver, smoke }: Stage, api: Api): Promise<number[]> {
  const before = (await receiver.delays_ms()).length;
  const count = smoke ? 10 : 100;
  const sent: Promise<void>[] = [];
  for (let i = 0; i < count; i++) {
    sent.push(api.createTask(JSON.stringify(task(`${receiver.origin}/hook?sent=${machineMs()}`, i))));
    await pause(GAP_MS);
  }
  await Promise.all(sent);
  for (;;) {
    const delays_ms = (await receiver.delays_ms()).slice(before);
    if (delays_ms.length === count) return delays_ms;
    await pause(GAP_MS);
  }
}

/** A host that takes connections and says nothing. */
async function startSilent(): Promise<{ origin: string; close(): void }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => {}).resume());
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return {
    origin: `http://127.0.0.1:${port}/hook`,
    close() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

const LATE_MS = 200;

export const takeover: Bench = {
  name: 'takeover',
  once: true,
  what: 'kill -9 of one of two processes at 2,000 tasks a second: how late those came that came 0.2 s late or more',
  async run(stage) {
    const late_s: number[] = [];
    const worst_s: number[] = [];
    for (let i = 0; i < (stage.smoke ? 1 : 5); i++) {
      const delays_ms = await afterKill(stage);
      late_s.push(...delays_ms.map((ms) => ms / 1_000));
      worst_s.push(Math.max(...delays_ms) / 1_000);
    }
    return { tasks: late_s.length, p50_s: percentile(late_s, 0.5), worst_p50_s: median(worst_s), worst_s: Math.max(...worst_s) };
  },
};

async function afterKill(stage: Stage): Promise<number[]> {
  const fleet = await Fleet.start({ entry: stage.entry, processes: 2, masters: 1 });
  const api = new Api(fleet.a);
  try {
    const ids = await dueEvenly(stage, api, offeredPerS(stage), 6);
    await pause(2_000);
    fleet.killLast();
    await api.completed(ids);
    return (await stage.receiver.delays_ms()).filter((ms) => ms > LATE_MS);
  } finally {
    await api.close();
    await fleet.stop();
  }
}
