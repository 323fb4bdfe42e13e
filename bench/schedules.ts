// What schedules cost while nothing is due, and how late their runs start when many are due at once.
import { parseCron } from '../src/schedules/expression.ts';
import { next } from '../src/schedules/next.ts';
import { zoneOf } from '../src/schedules/zone.ts';
import type { Bench, Stage } from './lib/bench.ts';
import { startPeer } from './lib/peer.ts';
import { percentile } from './lib/stats.ts';

const TOGETHER = 1_000;
const TOGETHER_SMOKE = 100;
const PAYLOAD = { n: 1 };
const AHEAD_S_MAX = 30;

export const scheduleLateness: Bench = {
  name: 'schedule_lateness',
  what: '1,000 schedules due at one second: arrival of the call after it; the same with job schedulers of BullMQ and a worker that calls',
  async run(stage) {
    const ours = await lateness(stage, (due_ms, cron) => ourRuns(stage, due_ms, cron));
    const theirs = await lateness(stage, (due_ms, cron) => bullmqRuns(stage, due_ms, cron));
    const figures = (name: string, delays_ms: readonly number[]) => ({
      [`${name}_p50_ms`]: percentile(delays_ms, 0.5),
      [`${name}_p99_ms`]: percentile(delays_ms, 0.99),
      [`${name}_max_ms`]: Math.max(...delays_ms),
    });
    return { runs: ours.length, ...figures('sluice', ours), ...figures('bullmq', theirs) };
  },
};

/** `make` has until shortly before the time to make its schedules; it returns what takes them away again. */
async function lateness(
  { receiver, smoke }: Stage,
  make: (due_ms: number, cron: string) => Promise<() => Promise<void>>,
): Promise<number[]> {
  for (let ahead_s = smoke ? 10 : 6; ; ahead_s *= 2) {
    await receiver.reset();
    const due_ms = (Math.floor(Date.now() / 1_000) + ahead_s) * 1_000;
    const at = new Date(due_ms);
    const undo = await make(due_ms, `${at.getUTCSeconds()} ${at.getUTCMinutes()} ${at.getUTCHours()} * * *`);
    if (Date.now() < due_ms) {
      await receiver.received(together(smoke));
      const delays_ms = await receiver.delays_ms();
      await undo();
      return delays_ms;
    }
    // Made too late, as where others use the machine too: once more, with more time.
    await undo();
    if (ahead_s > AHEAD_S_MAX) throw new Error(`this machine is too slow: the schedules were not made in ${ahead_s} s`);
  }
}

function together(smoke: boolean): number {
  return smoke ? TOGETHER_SMOKE : TOGETHER;
}

async function ourRuns({ api, receiver, smoke }: Stage, due_ms: number, cron: string): Promise<() => Promise<void>> {
  const body = { cron, timezone: 'UTC', task_template: { target: `${receiver.origin}/hook?due=${due_ms}`, payload: PAYLOAD } };
  const ids = await api.createSchedules(JSON.stringify(body), together(smoke));
  return async () => {
    for (const id of ids) await api.deleteSchedule(id);
  };
}

/** What the peer's process is told. */
export type SchedulesQuestion = { type: 'make'; count: number; pattern: string; path: string; payload: object } | { type: 'remove' };

async function bullmqRuns({ engine, receiver, smoke }: Stage, due_ms: number, pattern: string): Promise<() => Promise<void>> {
  const peer = await startPeer('bullmq.schedules', engine.socket, receiver.origin);
  const make: SchedulesQuestion = { type: 'make', count: together(smoke), pattern, path: `/hook?due=${due_ms}`, payload: PAYLOAD };
  await peer.ask(make);
  return async () => {
    await peer.ask({ type: 'remove' } satisfies SchedulesQuestion);
    await peer.stop();
  };
}

export const scheduleCost: Bench = {
  name: 'schedule_cost',
  once: true,
  what: 'schedules that are not due: memory of Redis for each; and how fast the next tick of one is computed',
  async run({ api, engine, receiver, smoke }) {
    const count = smoke ? 500 : 20_000;
    const before = await engine.kept_bytes();
    const body = { cron: '0 0 29 2 *', timezone: 'Europe/Berlin', task_template: { target: `${receiver.origin}/hook`, payload: PAYLOAD } };
    const ids = await api.createSchedules(JSON.stringify(body), count);
    const bytes = ((await engine.kept_bytes()) - before) / count;
    for (const id of ids.slice(0, smoke ? count : 1_000)) await api.deleteSchedule(id);
    return {
      schedules: ids.length,
      bytes_each: bytes,
      minutely_next_per_s: nextPerSecond('* * * * *'),
      daily_next_per_s: nextPerSecond('30 2 * * *'),
    };
  },
};

const NEXT_MS = 300;

function nextPerSecond(cron: string): number {
  const parsed = parseCron(cron);
  const zone = zoneOf('America/New_York');
  if (!parsed.ok || zone === null) throw new Error(`${cron} is not understood`);
  const began_ms = performance.now();
  let count = 0;
  for (let at: number | null = Date.UTC(2026, 0, 1); at !== null && performance.now() - began_ms < NEXT_MS; count++) {
    at = next(parsed.fields, zone, at);
    if (at !== null && at > Date.UTC(2036, 0, 1)) at = Date.UTC(2026, 0, 1);
  }
  return (count * 1_000) / (performance.now() - began_ms);
}
