// What each script that a task meets costs Redis, at three sizes, on a Redis that does nothing else. By Redis's own clock
// (INFO commandstats of the scripts): nothing of the network, of the protocol or of Node is in it. Calls are as large as the engine
// makes them (a claim takes CLAIM_MAX tasks at most), so a size of 1,000 is several calls for some.
import type { Redis } from 'ioredis';
import { CLAIM_MAX, SETTLE_MAX, TRAY_GROUP_TASKS_MAX } from '../src/base/limits.ts';
import { LIMITER_TYPES } from '../src/schema/limiters/kinds.ts';
import { encodeTargets } from '../src/store/notes.ts';
import type { Claimed } from '../src/store/partition.ts';
import { preload } from '../src/store/script.ts';
import { scripts } from '../src/store/scripts.gen.ts';
import { Lane } from '../test/helpers/lane.ts';
import { ClockedRedis, Rig } from '../test/helpers/rig.ts';
import { BareRedis } from './lib/bare-redis.ts';
import type { Bench, Figures } from './lib/bench.ts';
import { LIMITER_CONFIGS } from './lib/limiter-configs.ts';
import { medianOf } from './lib/stats.ts';

const SIZES = [10, 100, 1_000];
/** What one grant call lets start at most; as store/partition.ts has it. */
const GRANT_TASKS = 500;
const LANE_PARTITION = 2;
const NOTIFY = encodeTargets((['on_progress', 'on_finish'] as const).map((event) => ({ event, origin: 'webhookorg', min_interval_ms: 0 })));

interface Cost {
  calls: number;
  us: number;
}
/** Runs the work and returns what it returned, its cost noted under a name. */
type Measure = <T>(name: string, work: () => Promise<T>) => Promise<T>;

export const luaCost: Bench = {
  name: 'lua_cost',
  once: true,
  what: `Redis CPU of each script, in microseconds a call and a task, at ${SIZES.map((size) => size.toLocaleString('en')).join(', ')} tasks`,
  async run({ smoke }) {
    const server = await BareRedis.start();
    const redis = new ClockedRedis({ path: server.path });
    try {
      await preload(redis, Object.values(scripts));
      const rig = new Rig(redis);
      rig.checks = false;
      await rig.reset();
      const figures: Figures = {};
      for (const size of SIZES) {
        const rounds: Map<string, Cost>[] = [];
        for (let i = 0; i < (smoke ? 1 : 31); i++) rounds.push(await round(rig, size));
        for (const name of rounds[0]?.keys() ?? []) {
          // The first round finds caches cold, and is thrown away.
          const kept = (smoke ? rounds : rounds.slice(1)).map((one) => one.get(name) ?? { calls: Number.NaN, us: Number.NaN });
          figures[`${name}_${size}_us_a_call`] = medianOf(kept, ({ calls, us }) => us / calls);
          figures[`${name}_${size}_us_a_task`] = medianOf(kept, ({ us }) => us / size);
        }
      }
      return figures;
    } finally {
      redis.disconnect();
      await server.stop();
    }
  },
};

async function round(rig: Rig, size: number): Promise<Map<string, Cost>> {
  const costs = new Map<string, Cost>();
  const measure: Measure = async (name, work) => {
    const before = await scriptsRun(rig.redis);
    const done = await work();
    const after = await scriptsRun(rig.redis);
    costs.set(name, { calls: after.calls - before.calls, us: after.us - before.us });
    return done;
  };
  rig.pass(1_000);
  const core = await measure('create', () => rig.create({ tasks: size, hold: true }));
  await settle(measure, 'settle', rig, await claim(measure, 'claim', rig, size));
  await measure('add', () => rig.add(core, size));
  await settle(measure, 'settle_added', rig, await claim(measure, 'claim_added', rig, size));
  await measure('tick_with_nothing_due', () => rig.tick('h1'));
  await measure('release', () => rig.release(core));

  await measure('single', async () => {
    for (let made = 0; made < size; made += TRAY_GROUP_TASKS_MAX) await rig.single(Math.min(TRAY_GROUP_TASKS_MAX, size - made));
  });
  await settle(measure, 'settle_singles', rig, await claim(measure, 'claim_singles', rig, size));

  // Of different times, so that each is a range of its own: what retries look like.
  await rig.create({ tasks: Array.from({ length: size }, (_, i) => ({ due_ms: rig.now_ms + 1_000 + i })) });
  await measure('deal_out', async () => {
    while ((await rig.claimed('h1', CLAIM_MAX)).more);
  });
  rig.pass(10_000);
  await measure('tick_with_all_due', async () => {
    while ((await rig.tick('h1')).more);
  });
  await settle(measure, 'settle_due', rig, await claim(measure, 'claim_due', rig, size));

  await rig.create({ tasks: size, notify: NOTIFY });
  await settle(measure, 'settle_telling', rig, await claim(measure, 'claim_telling', rig, size));
  await settle(measure, 'settle_notes', rig, await claim(measure, 'claim_notes', rig, size + 1));

  for (const type of LIMITER_TYPES) {
    const now_us = rig.now_ms * 1_000;
    const lane = await Lane.create(rig.redis, LANE_PARTITION, { type, config: LIMITER_CONFIGS[type], now_us });
    const range = { batch: lane.newBatch(now_us), from: 0, to: size - 1, first_ms: rig.now_ms };
    await measure(`limiter_receive_${type}`, () => lane.queue(now_us, range));
    await measure(`limiter_grant_${type}`, async () => {
      for (let granted = 0, call = 1; granted < size; call++) {
        const now = await lane.grantOnly(now_us + call * 1_000, GRANT_TASKS);
        if (now === 0) throw new Error(`${type} grants nothing after ${granted} of ${size}`);
        granted += now;
      }
    });
    await lane.sent();
    await lane.remove();
  }
  return costs;
}

/** Claims so many tasks, as a thread does. */
async function claim(measure: Measure, name: string, rig: Rig, tasks: number): Promise<Claimed[]> {
  return measure(name, async () => {
    const all: Claimed[] = [];
    while (all.length < tasks) {
      const { tasks: some, more } = await rig.claimed('h1', Math.min(CLAIM_MAX, tasks - all.length));
      if (some.length === 0 && !more) throw new Error(`${name} brings ${all.length} of ${tasks} tasks`);
      all.push(...some);
    }
    return all;
  });
}

async function settle(measure: Measure, name: string, rig: Rig, tasks: readonly Claimed[]): Promise<void> {
  await measure(name, async () => {
    for (let from = 0; from < tasks.length; from += SETTLE_MAX) await rig.settle('h1', tasks.slice(from, from + SETTLE_MAX), 'c');
  });
}

/** Scripts that were run until now. */
async function scriptsRun(redis: Redis): Promise<Cost> {
  const found = (await redis.info('commandstats')).matchAll(/^cmdstat_eval(?:sha)?:calls=(\d+),usec=(\d+)/gm);
  return [...found].reduce((sum, [, calls, us]) => ({ calls: sum.calls + Number(calls), us: sum.us + Number(us) }), { calls: 0, us: 0 });
}
