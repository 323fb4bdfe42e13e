// What limiters let through of what they allow, seen at a receiver, and what it costs to keep tasks waiting, beside a queue
// that has a limiter too.
import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { BareRedis } from './lib/bare-redis.ts';
import { type Bench, type Figures, pause, type Stage } from './lib/bench.ts';
import { batchBodies, task } from './lib/payload.ts';
import { startPeer } from './lib/peer.ts';
import { mostWithin } from './lib/stats.ts';

const SECOND_MS = 1_000;
/** What a start may take to arrive, so that a later one seems to follow too early. */
const WAY_MS = 20;

export const limiterShare: Bench = {
  name: 'limiter_share',
  what: 'starts of waiting tasks at a receiver, of those that a window of a second, and a leaky bucket, allow (when the burst that a limiter opens with is over); the most in any second',
  async run(stage) {
    const rates = stage.smoke ? [100] : [100, 1_000, 10_000];
    const figures: Figures = {};
    for (const rate of rates) {
      const window = await arrivals(stage, 'window', { limit: rate, interval: 1 }, rate);
      figures[`window_${rate}_share`] = slotShare(window, rate);
      figures[`window_${rate}_most`] = mostWithin(window, SECOND_MS - WAY_MS) / rate;
      // What comes back in 50 ms: a bucket that is full loses what drips in until somebody looks.
      const capacity = rate / 20;
      const leaky = await arrivals(stage, 'leaky', { capacity, drain_rate: rate, interval: 1 }, rate);
      figures[`leaky_${rate}_share`] = evenShare(leaky, rate);
      figures[`leaky_${rate}_most`] = mostWithin(leaky, SECOND_MS - WAY_MS) / (rate + capacity);
    }
    return figures;
  },
};

/** When tasks arrive that all wait when the limiter opens; ms, ascending. */
async function arrivals({ api, receiver, smoke }: Stage, type: string, config: object, rate: number): Promise<number[]> {
  const count = rate * (smoke ? 4 : 12);
  const limiter = await api.createLimiter({ name: `bench-${type}-${rate}-${Date.now()}`, type, config });
  await api.limiter(limiter.id, 'pause');
  await receiver.reset();
  const ids = await api.createBatches(batchBodies(() => `${receiver.origin}/hook?due=0`, count, { rate_limiter: limiter.name }));
  await api.limiter(limiter.id, 'resume');
  await receiver.received(count);
  await api.completed(ids);
  const at_ms = await receiver.delays_ms();
  if (at_ms.length !== count) throw new Error(`${at_ms.length} requests came in where ${count} were expected`);
  return at_ms.sort((a, b) => a - b);
}

/** By how long it took until a start that left the window was followed by another, from the third second on: a window opens with a burst. */
function slotShare(at_ms: readonly number[], rate: number): number {
  const gaps = at_ms.slice(3 * rate).map((to, i) => to - (at_ms[2 * rate + i] ?? 0));
  return SECOND_MS / (gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length);
}

/** Of what drips through from the third second on. */
function evenShare(at_ms: readonly number[], rate: number): number {
  const [first = 0] = at_ms;
  const from = at_ms.findIndex((at) => at >= first + 2 * SECOND_MS);
  const span_ms = (at_ms.at(-1) ?? 0) - (at_ms[from] ?? 0);
  return (at_ms.length - 1 - from) / ((span_ms / SECOND_MS) * rate);
}

const WAITING = 50_000;
const PER_S = 10;
const LOOK_AGAIN_MS = 5;

export const limiterWaiting: Bench = {
  name: 'limiter_waiting',
  what: `50,000 tasks waiting at a limit of ${PER_S} a second: Redis commands a second (those that were sent, and with those inside scripts), its CPU of one core; beside BullMQ`,
  async run(stage) {
    const waiting = stage.smoke ? 1_000 : WAITING;
    const s = stage.smoke ? 2 : 10;
    const { api, engine, receiver } = stage;
    const limiter = await api.createLimiter({ name: `bench-waiting-${Date.now()}`, type: 'window', config: { limit: PER_S, interval: 1 } });
    const ids = await api.createBatches(batchBodies(() => `${receiver.origin}/hook`, waiting, { rate_limiter: limiter.name }));
    const ours = await watched(
      engine.socket,
      () => engine.cpu_s().redis,
      s,
      async () => receiver.count(),
    );
    await api.cancelBatches(ids);
    const theirs = await bullmq(waiting, s);
    return {
      sent_per_s: ours.sent_per_s,
      commands_per_s: ours.commands_per_s,
      starts_per_s: ours.starts_per_s,
      redis_cpu_percent: ours.cpu_percent,
      bullmq_sent_per_s: theirs.sent_per_s,
      bullmq_commands_per_s: theirs.commands_per_s,
      bullmq_starts_per_s: theirs.starts_per_s,
      bullmq_redis_cpu_percent: theirs.cpu_percent,
    };
  },
};

interface Watched {
  /** As clients sent them. */
  sent_per_s: number;
  /** With those that scripts call. */
  commands_per_s: number;
  starts_per_s: number;
  cpu_percent: number;
}

/** What the Redis at `socket` does for `s` seconds, after two to calm down. */
async function watched(socket: string, cpu_s: () => number, s: number, started: () => Promise<number>): Promise<Watched> {
  await pause(2 * SECOND_MS);
  // Read line by line here: to a client library, what others send may come before the answer that begins it.
  const monitor = connect(socket);
  let [sent, all] = [0, 0];
  createInterface(monitor).on('line', (line) => {
    if (line === '+OK') return;
    all++;
    if (!/^\S+ \[\d+ lua\]/.test(line)) sent++;
  });
  monitor.write('MONITOR\r\n');
  await once(monitor, 'data');
  const [starts, cpu, from_ms] = [await started(), cpu_s(), performance.now()];
  await pause(s * SECOND_MS);
  const passed_s = (performance.now() - from_ms) / SECOND_MS;
  const used_s = cpu_s() - cpu;
  monitor.destroy();
  return {
    sent_per_s: sent / passed_s,
    commands_per_s: all / passed_s,
    starts_per_s: ((await started()) - starts) / passed_s,
    cpu_percent: (used_s / passed_s) * 100,
  };
}

const MILLION = 1_000_000;
const MILLION_EACH = 10_000;

export const limiterMillion: Bench = {
  name: 'limiter_million',
  once: true,
  what: `1,000,000 tasks waiting at a limit of ${PER_S} a second: Redis commands a second; then all are cancelled: how soon the one behind them is called`,
  async run(stage) {
    const { api, engine, receiver } = stage;
    const each = stage.smoke ? 1_000 : MILLION_EACH;
    const count = stage.smoke ? 20_000 : MILLION;
    const { name } = await api.createLimiter({
      name: `bench-million-${Date.now()}`,
      type: 'window',
      config: { limit: PER_S, interval: 1 },
    });
    const ids: string[] = [];
    // One after another, so that the bodies need not be kept.
    for (let from = 0; from < count; from += each) {
      ids.push(...(await api.createBatches(batchBodies(() => `${receiver.origin}/hook`, each, { rate_limiter: name }, {}, each))));
    }
    const seen = await watched(
      engine.socket,
      () => engine.cpu_s().redis,
      stage.smoke ? 2 : 10,
      async () => receiver.count(),
    );
    await api.createTask(JSON.stringify(task(`${receiver.origin}/hook?due=0`, 0, { rate_limiter: name })));
    await api.cancelBatches(ids);
    const cancelled_ms = Date.now();
    const known = (await receiver.delays_ms()).length;
    while ((await receiver.delays_ms()).length === known) await pause(LOOK_AGAIN_MS);
    const called_ms = (await receiver.delays_ms())[known] ?? Number.NaN;
    return {
      waiting: count,
      sent_per_s: seen.sent_per_s,
      commands_per_s: seen.commands_per_s,
      redis_cpu_percent: seen.cpu_percent,
      called_after_cancel_ms: called_ms - cancelled_ms,
    };
  },
};

/** What the peer's process is told; it answers how many it has started. */
export type WaitingQuestion = { type: 'fill'; waiting: number; per_s: number } | { type: 'started' };

/** The same backlog in a Redis of its own, with one worker that has the same limit. */
async function bullmq(waiting: number, s: number): Promise<Watched> {
  const server = await BareRedis.start();
  const peer = await startPeer('bullmq.waiting', server.path);
  const ask = (question: WaitingQuestion): Promise<{ started: number }> => peer.ask(question);
  try {
    await ask({ type: 'fill', waiting, per_s: PER_S });
    return await watched(
      server.path,
      () => server.cpu_s(),
      s,
      async () => (await ask({ type: 'started' })).started,
    );
  } finally {
    await peer.stop();
    await server.stop();
  }
}
