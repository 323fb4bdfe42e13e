// What each guarantee costs: CPU a task of the server and of Redis with it, less that without it, in turns in one run.
//
// What is on by default and has no switch is measured otherwise, and says so:
//   signing    by a second secret (as after a rotation): one signature more a call. One costs as much as the other.
//   guard      servers with the whole guard (one range allowed, so that the receiver here can be reached), beside those that may call
//              private addresses. It judges URLs at the create and addresses at each new connection, not each call.
//   leases     by profile: the commands of claim and settle that touch what says who holds which task, counted by MONITOR, each at the
//              price that Redis's own statistics give it. What scripts spend around these commands is not in it.
import { CLAIM_MAX } from '../src/base/limits.ts';
import { LIMITER_TYPES } from '../src/schema/limiters/kinds.ts';
import { preload } from '../src/store/script.ts';
import { scripts } from '../src/store/scripts.gen.ts';
import { ClockedRedis, Rig } from '../test/helpers/rig.ts';
import { Api } from './lib/api.ts';
import { BareRedis } from './lib/bare-redis.ts';
import type { Bench, Figures, Stage } from './lib/bench.ts';
import { Fleet } from './lib/fleet.ts';
import { LIMITER_CONFIGS } from './lib/limiter-configs.ts';
import { batchBodies } from './lib/payload.ts';
import { median } from './lib/stats.ts';

const SCRAPE_EVERY_MS = 1_000;

interface Place {
  api: Api;
  fleet: Fleet;
}

interface Variant {
  name: string;
  /** What it is held against; null: itself a base. */
  base: string | null;
  place: Place;
  /** Of each task, of each batch. */
  fields?: object;
  batch_fields?: object;
  /** Calls of a task at the receiver, and of a batch. */
  calls?: { task: number; batch: number };
  scrape?: boolean;
}

interface Cost {
  engine: number;
  redis: number;
}

export const guarantees: Bench = {
  name: 'guarantees',
  once: true,
  what: 'CPU a task that each guarantee adds, in microseconds, of the server and of Redis: medians of differences within a turn',
  async run(stage) {
    const tasks = stage.smoke ? 500 : 30_000;
    const fleets: Fleet[] = [];
    const apis: Api[] = [];
    const start = async (options: { replica?: boolean; env?: Record<string, string> } = {}): Promise<Place & { b: Api }> => {
      const fleet = await Fleet.start({ entry: stage.entry, processes: 1, masters: 1, ...options });
      fleets.push(fleet);
      const [api, b] = [new Api(fleet.a), new Api(fleet.b)];
      apis.push(api, b);
      return { fleet, api, b };
    };
    try {
      const plain = await start();
      // The two that differ in their servers have a base which does nothing else either: what else a server did is in its code's speed.
      const open = await start({ env: { SLUICE_ALLOW_PRIVATE_TARGETS: 'true' } });
      const guarded = await start();
      const local = await start({ replica: true, env: { SLUICE_DURABILITY: 'local' } });
      const replicated = await start({ replica: true, env: { SLUICE_DURABILITY: 'replicated' } });
      await plain.b.rotateSecret();
      const hook = { url: `${stage.receiver.origin}/hook` };
      const variants: Variant[] = [
        { name: 'plain', base: null, place: plain },
        { name: 'signature', base: 'plain', place: { fleet: plain.fleet, api: plain.b } },
        { name: 'open', base: null, place: open },
        { name: 'guard', base: 'open', place: guarded },
        {
          ...{ name: 'on_finish', base: 'plain', place: plain, calls: { task: 1, batch: 1 } },
          batch_fields: { notifications: { on_finish: hook } },
        },
        {
          ...{ name: 'on_progress', base: 'plain', place: plain, calls: { task: 2, batch: 0 } },
          batch_fields: { notifications: { on_progress: hook } },
        },
        { name: 'metrics_scrape', base: 'plain', place: plain, scrape: true },
        { name: 'replica', base: 'open', place: local },
        { name: 'replicated', base: 'replica', place: replicated },
      ];
      for (const type of LIMITER_TYPES) {
        const limiter = await plain.api.createLimiter({ name: `bench-cost-${type}`, type, config: LIMITER_CONFIGS[type] });
        variants.push({ name: `limiter_${type}`, base: 'plain', place: plain, fields: { rate_limiter: limiter.name } });
      }
      if (!stage.smoke) for (const variant of variants) await measure(stage, variant, tasks);
      const turns: Map<string, Cost>[] = [];
      for (let turn = 0; turn < (stage.smoke ? 1 : 7); turn++) {
        const costs = new Map<string, Cost>();
        // Each turn begins elsewhere, so that none comes always after the same one.
        for (let i = 0; i < variants.length; i++) {
          const variant = variants[(i + turn * 3) % variants.length] as Variant;
          costs.set(variant.name, await measure(stage, variant, tasks));
        }
        turns.push(costs);
      }
      return { ...figuresOf(variants, turns), ...(await leases(stage.smoke)) };
    } finally {
      await Promise.all(apis.map((api) => api.close()));
      await Promise.all(fleets.map((fleet) => fleet.stop()));
    }
  },
};

function figuresOf(variants: readonly Variant[], turns: readonly Map<string, Cost>[]): Figures {
  const figures: Figures = {};
  for (const { name, base } of variants) {
    const added = (what: keyof Cost): number[] =>
      turns.map((costs) => (costs.get(name)?.[what] ?? Number.NaN) - (base === null ? 0 : (costs.get(base)?.[what] ?? Number.NaN)));
    figures[`${name}_engine_us`] = median(added('engine'));
    figures[`${name}_redis_us`] = median(added('redis'));
    // How far the turns are apart: what is smaller than this is noise.
    const both = added('engine').map((engine, i) => engine + (added('redis')[i] ?? 0));
    figures[`${name}_spread_us`] = Math.max(...both) - Math.min(...both);
  }
  return figures;
}

/** CPU a task of one run of batches, from the first create until all have been called, told and counted. */
async function measure(
  { receiver }: Stage,
  { place, fields = {}, batch_fields = {}, calls, scrape }: Variant,
  tasks: number,
): Promise<Cost> {
  const bodies = batchBodies(() => `${receiver.origin}/hook`, tasks, fields, batch_fields);
  await receiver.reset();
  const scraping = scrape === true ? scrapeOn(`${place.fleet.a.url}/metrics`) : null;
  const before = place.fleet.cpu();
  const expected = tasks * (calls?.task ?? 1) + bodies.length * (calls?.batch ?? 0);
  const [ids] = await Promise.all([place.api.createBatches(bodies), receiver.received(expected)]);
  await place.api.completed(ids);
  await scraping?.stop();
  const after = place.fleet.cpu();
  const each = (what: keyof Cost): number => ((after[what] - before[what]) * 1e6) / tasks;
  return { engine: each('engine'), redis: each('redis') };
}

/** Once at the start and then each second, as Prometheus at its most eager; waits for the answers. */
function scrapeOn(url: string): { stop(): Promise<void> } {
  let scrapes = Promise.resolve();
  const scrape = (): void => {
    scrapes = scrapes.then(async () => void (await (await fetch(url)).text()));
  };
  scrape();
  const timer = setInterval(scrape, SCRAPE_EVERY_MS);
  return {
    stop: async () => {
      clearInterval(timer);
      await scrapes;
    },
  };
}

/** Which task is whose, until when; who is there at all. */
const LEASE_KEY = /:(active:[^:]+|holders|claims)$/;

/** Of claims and settles of as many tasks as a thread takes at once. */
async function leases(smoke: boolean): Promise<Figures> {
  const server = await BareRedis.start();
  const redis = new ClockedRedis({ path: server.path });
  try {
    await preload(redis, Object.values(scripts));
    const rig = new Rig(redis);
    rig.checks = false;
    await rig.reset();
    const monitor = await redis.monitor();
    const seen = new Map<string, number>();
    monitor.on('monitor', (_time: string, [command = '', key = '']: string[], source: string) => {
      if (source === 'lua' && LEASE_KEY.test(key)) seen.set(command.toLowerCase(), (seen.get(command.toLowerCase()) ?? 0) + 1);
    });
    const rounds = smoke ? 5 : 200;
    await redis.config('RESETSTAT');
    for (let i = 0; i < rounds; i++) {
      rig.pass(10);
      await rig.create({ tasks: CLAIM_MAX });
      await rig.settle('h1', await rig.claim('h1', CLAIM_MAX), 'c');
    }
    // What is monitored comes on a connection of its own: its own mark says that all of it is there.
    const all = new Promise<void>((done) => {
      monitor.on('monitor', (_time: string, args: string[]) => args[1] === 'bench-mark' && done());
    });
    await redis.echo('bench-mark');
    await all;
    monitor.disconnect();
    const stats = await redis.info('commandstats');
    let us = 0;
    let commands = 0;
    for (const [command, count] of seen) {
      commands += count;
      us += count * Number(new RegExp(`^cmdstat_${command}:.*usec_per_call=([\\d.]+)`, 'm').exec(stats)?.[1] ?? Number.NaN);
    }
    return { lease_commands: commands / (rounds * CLAIM_MAX), lease_redis_us: us / (rounds * CLAIM_MAX) };
  } finally {
    redis.disconnect();
    await server.stop();
  }
}
