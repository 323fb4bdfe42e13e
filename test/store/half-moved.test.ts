// Every script in a slot that is on its way from one master to another, half of its keys gone: a call that fails has
// changed nothing, on either side, and one that does not fail has done all of its work.
//
// Redis has no rollback, so what a script reads or writes must be here before its first write; and on the side that
// receives the slot a key that has not come yet looks like one that does not exist, which is worse than an error.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Redis } from 'ioredis';
import { isUnavailable } from '../../src/store/errors.ts';
import { keys } from '../../src/store/keys.ts';
import { encodePages, encodeRecord } from '../../src/store/records.ts';
import { execPipeline, preload, type RestValue, type Script, textOf } from '../../src/store/script.ts';
import { scripts } from '../../src/store/scripts.gen.ts';
import { checkPartition } from '../helpers/check-partition.ts';
import { startCluster, type TestNode } from '../helpers/cluster.ts';
import { LIMIT_CALLS, limitedLanes, limitedRuns } from '../helpers/limited-scene.ts';
import { until } from '../helpers/redis.ts';
import { ACCOUNT, ClockedRedis, Rig, SETTINGS, T0, tasksOf } from '../helpers/rig.ts';
import { runs } from '../helpers/runs.ts';
import { build, type Scene } from './half-moved-scene.ts';

const SEEDS = runs(3);
const META = keys.partition(0);
const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

type AnyScript = Script<{ meta: string }, Record<string, unknown>, unknown>;
type Call = Record<string, RestValue | readonly RestValue[] | undefined>;

const cluster = await startCluster();
const clients = new Map<TestNode, ClockedRedis>();
for (const node of cluster.nodes.slice(0, 3)) clients.set(node, new ClockedRedis({ host: '127.0.0.1', port: node.port }));
after(() => {
  for (const client of clients.values()) client.disconnect();
});
before(async () => {
  for (const client of clients.values()) await preload(client, Object.values(scripts));
});

const RECORD = encodeRecord(tasksOf(1)[0] ?? assert.fail(), false);
const IDEM = { idem_key: `${ACCOUNT}:key`, idem_print: 'print', idem_extra: Buffer.from('{}') };
const SINGLE = { ...IDEM, total: 1, place: 0, parts: [1, ...encodePages(tasksOf(1), 0), 1, 0, 0, 'o1', 30, 0, '', 0] };
const NEW = {
  account: ACCOUNT,
  doc: Buffer.from('{}'),
  last_bytes: 1,
  expiration_ms: DAY_MS,
  expires_from_ms: 0,
  movable: 0,
  hold: 0,
  labels: 'aaaaaaaaaabbbbbbbbbb',
  notify: 'faaaaaaaaaa;',
};
const ADD = { account: ACCOUNT, expires_from_ms: 0, expiration_ms: DAY_MS, ...IDEM };
const KEEP = { keep_ms: SETTINGS.keep_ms, tray_keep_ms: SETTINGS.tray_keep_ms };
const CLAIM = { suspects: 1, recoveries_max: 3, grace_ms: 5000, room: 1000, notes: 100, limits: [0, 0] };
const NO_LIMIT = { limiter: '', cost: 0, valid_ms: 0 };
const RETRY = { account: ACCOUNT, origin: 'o1', timeout_s: 30, due_ms: 0, ...NO_LIMIT, expiration_ms: DAY_MS, op: 'op8' };
const TICK = { ...KEEP, silence_ms: SETTINGS.silence_ms, gap_ms: SETTINGS.gap_ms, recoveries_max: 3, pressure: 0 };

const TRIGGER = { ...IDEM, account: ACCOUNT, template: '1', op: 'op6', staged: 0, trace: '' };
/** The tick that the schedules of the scene wait for is the first full minute after they were made. */
function fired(built_ms: number): Call {
  const tick = Math.ceil((built_ms - MINUTE_MS + 1) / MINUTE_MS) * MINUTE_MS;
  const next = { next_tick: String(tick + MINUTE_MS), next_due: String(tick + 15_000) };
  return { version: '1', tick, verdict: 'run', grace_ms: 5_000, ticks: 1, ...next, staged: 0 };
}

/** Its counters as they are: what is to be set right is a list. */
function repairOf({ inspected }: Scene, core: string): Call {
  const { seen, total, completed, failed, cancelled, running } = inspected.get(core) ?? assert.fail();
  return { ...KEEP, core, seen, total, completed, failed, cancelled, running };
}

function stagedName(core: string, operation: string): string {
  return keys.staged(0, core, operation, 0).slice(META.length - 1);
}

/** Destinations that a slice leaves out: none. */
const skip: string[] = [];

/** Of each script that works in a partition the calls that write most; `late_ms` lets time pass first. */
const CALLS: Record<string, ((scene: Scene) => Call & { late_ms?: number })[]> = {
  'batch/add': [
    ({ running: core }) => ({ ...ADD, core, op: 'op1', total: 1, parts: [0, 1, RECORD, 1, 0, 0, 'o1', 30, 0, '', 1, 'k2', 0] }),
    ({ running: core }) => ({ ...ADD, core, op: 'op2', total: 1, parts: [0, 1, RECORD, 1, 0, 0, 'o1', 30, T0 + DAY_MS, '', 0, 0] }),
    ({ running: core, limits }) => ({
      ...ADD,
      core,
      op: 'op8',
      total: 2,
      parts: [0, 2, RECORD, RECORD, ...limitedRuns(limits, T0 + DAY_MS), 0, ...limitedLanes(limits)],
    }),
    ({ running: core }) => ({
      ...ADD,
      core,
      op: 'op',
      total: 300,
      parts: [1, stagedName(core, 'op'), 300, 9000, 0, 1, 0, 299, 'o7', 30, 0, '', 0, 0],
    }),
  ],
  'batch/cancel': [({ running: core }) => ({ core, account: ACCOUNT, keep_ms: 1 })],
  'batch/create': [
    ({ fresh: core }) => ({
      ...NEW,
      ...IDEM,
      core,
      total: 40,
      parts: [1, 0, 2, 0, 19, 'o1', 30, 0, '', 20, 39, 'o2', 30, T0 + DAY_MS, '', 1, 'k1', 0],
    }),
    ({ fresh: core, limits }) => ({
      ...NEW,
      ...IDEM,
      core,
      total: 40,
      parts: [1, 0, ...limitedRuns(limits, T0 + DAY_MS, 39), 0, ...limitedLanes(limits)],
    }),
  ],
  'batch/read': [({ running: core }) => ({ limit: 100, reads: [core, ACCOUNT, '1', '1'] })],
  'batch/inspect': [({ running, failed, tray }) => ({ ...KEEP, cores: [running, failed, tray] })],
  'batch/repair': [(scene) => repairOf(scene, scene.running), (scene) => repairOf(scene, scene.failed)],
  // Tasks that wait at a lane.
  'batch/requeue': [
    ({ inspected, limits: { batch: core } }) => {
      const { seen } = inspected.get(core) ?? assert.fail();
      return { ...KEEP, core, seen, parts: [80, 84, 'o1', 30, T0 + DAY_MS, 0, '', 1, 0] };
    },
    ({ inspected, limits: { batch: core, points } }) => {
      const { seen } = inspected.get(core) ?? assert.fail();
      return { ...KEEP, core, seen, parts: [80, 84, 'o1', 30, 0, 0, points.name, points.cost, 0] };
    },
  ],
  'batch/retry': [
    ({ failed: core }) => ({ core, account: ACCOUNT, op: 'op5', expiration_ms: DAY_MS, ...IDEM }),
    ({ expired: core }) => ({ core, account: ACCOUNT, op: 'op6', expiration_ms: DAY_MS, ...IDEM }),
  ],
  'batch/delete': [({ failed: core }) => ({ core, account: ACCOUNT })],
  'batch/sweep': [({ expired: core }) => ({ core, account: ACCOUNT, tasks_max: 20 })],
  'batch/release': [({ held: core }) => ({ core, account: ACCOUNT, keep_ms: 1, fields: ['s'] })],
  'idem/begin': [() => ({ idem_key: `${ACCOUNT}:key`, note: '', idem_print: 'print' })],
  'idem/forget': [() => ({ idem_key: `${ACCOUNT}:key`, idem_print: 'print', begun_ms: 0, keep: 0 })],
  'idem/finish': [() => ({ idem_key: `${ACCOUNT}:key`, idem_print: 'print', answer: Buffer.from('{}') })],
  'notification/redeliver': [({ failed: core }) => ({ core, index: 0, account: ACCOUNT, op: 'op7' })],
  'outbox/ack': [({ limits: { messages } }) => ({ destination: 0, mark: 1, messages: messages.slice(0, 2) })],
  'outbox/slice': [() => ({ messages_max: 500, destinations_max: 16, skip })],
  'partition/claim': [
    () => ({ ...CLAIM, holder: 'h1', call_no: 5000, budget: 128 }),
    () => ({ ...CLAIM, holder: 'h2', call_no: 5006, budget: 500, limits: [1, 'o2', 1, 'o1', 0] }),
    () => ({ ...CLAIM, holder: 'h1', call_no: 1011, budget: 64 }),
  ],
  'partition/mend': [() => ({ names: ['f:f:acme:o1', 'f:n:acme:webhookor1', 'active:h1', 'outbox:0', 'away', 'away none'] })],
  'partition/look': [() => ({ kinds: 'wc', lanes: ['none'] })],
  'partition/settle': [
    ({ flown }) => {
      const [one, two, three, four] = flown.slice(-4);
      assert.ok(one && two && three && four);
      const runs = [one.index, 1, 'c', two.index, 1, 'f', three.index, 1, 'r', four.index, 1, 'b'];
      const delays = [three.index, 1000, four.index, 0];
      return {
        ...KEEP,
        holder: 'h1',
        parts: [one.flight.name, 4, ...runs, 1, 'r0', Buffer.from('\x00\x00\x02[]', 'latin1'), 2, ...delays],
      };
    },
  ],
  'partition/tick': [
    () => ({ ...TICK, holder: 'h1' }),
    () => ({ ...TICK, holder: 'h2', late_ms: 2000, silence_ms: 1000 }),
    () => ({ ...TICK, holder: 'h1', late_ms: SETTINGS.keep_ms }),
    () => ({ ...TICK, holder: 'h1', pressure: 1 }),
  ],
  'schedule/create': [
    ({ unborn: core }) => ({
      ...{ ...IDEM, core, account: ACCOUNT, status: 'active', tick: String(T0 + DAY_MS), due: String(T0) },
      parts: [1, 0, 1, 'k1', 2, 'z', '* * * * *', 'm', '{}'],
    }),
  ],
  'schedule/delete': [({ nightly: core }) => ({ core, account: ACCOUNT })],
  'schedule/due': [() => ({ most: 10 })],
  'schedule/fire': [
    ({ minutely: core, fresh: run_core, built_ms }) => ({
      ...fired(built_ms),
      core,
      run_core,
      parts: [0, 1, 0, 0, 'o1', 30, built_ms, '', 0],
    }),
    ({ minutely: core, fresh: run_core, built_ms, limits }) => ({
      ...{ ...fired(built_ms), core, run_core, parts: [0, ...limitedRuns(limits, 0, 0), ...limitedLanes(limits)] },
    }),
    ({ nightly: core, fresh, built_ms, limits }) => ({
      ...{ ...fired(built_ms), core, run_core: `${fresh.slice(0, -1)}0` },
      parts: [1, 0, ...limitedRuns(limits, built_ms + DAY_MS, 39), ...limitedLanes(limits)],
    }),
    ({ nightly: core, fresh, built_ms }) => ({
      ...{ ...fired(built_ms), core, run_core: `${fresh.slice(0, -1)}0`, parts: [1, 0, 1, 0, 39, 'o1', 30, built_ms + DAY_MS, '', 0] },
    }),
    ({ minutely: core, fresh: run_core, built_ms }) => ({ ...fired(built_ms), core, run_core, verdict: 'limiter', parts: [] }),
  ],
  'schedule/look': [() => ({})],
  'schedule/patch': [
    ({ staged: core, built_ms }) => ({
      ...{ core, account: ACCOUNT, version: '1', status: 'disabled', seen: String(fired(built_ms)['tick']) },
      ...{ tick: '', due: '', template: 'op' },
      parts: [1, 0, 1, 'k2', 2, 'z', '0 * * * *', 'm', '{}'],
    }),
    ({ minutely: core, built_ms }) => ({
      ...{ core, account: ACCOUNT, version: '1', status: 'active', seen: String(fired(built_ms)['tick']) },
      ...{ tick: String(T0 + DAY_MS), due: String(T0 + DAY_MS), template: '' },
      parts: [0, 0, 2, 'z', '0 * * * *'],
    }),
  ],
  'schedule/read': [({ minutely: core }) => ({ core, account: ACCOUNT })],
  'schedule/runs': [({ nightly: core }) => ({ core, account: ACCOUNT, offset: 0, most: 10 })],
  'schedule/stage': [({ nightly: core, fresh: batch }) => ({ core, template: '1', batch, base: '0', ttl_ms: MINUTE_MS })],
  'schedule/trigger': [
    ({ minutely: core, fresh: run_core }) => ({ ...TRIGGER, core, run_core, parts: [0, 1, 0, 0, 'o1', 30, 0, '', 0] }),
    ({ nightly: core, fresh }) => ({ ...TRIGGER, core, run_core: `${fresh.slice(0, -1)}0`, parts: [1, 0, 1, 0, 39, 'o1', 30, 0, '', 0] }),
  ],
  'stream/look': [({ running: core }) => ({ core, watch_ms: 15_000, tasks: 1, max: 10, place_ms: 25_000, streams: ['s1', 's2'] })],
  'stream/take': [({ running: core }) => ({ core, account: ACCOUNT, ticket: '', stream: 's1', max: 10, place_ms: 25_000 })],
  'stream/ticket': [({ running: core }) => ({ core, account: ACCOUNT, token: 'hash', ticket: 'hash', ttl_ms: 30_000 })],
  'task/cancel': [({ running: core }) => ({ ...KEEP, core, index: 1199, account: ACCOUNT, limiter: '', due_ms: 0 })],
  'task/create': [
    ({ fresh: core }) => ({ ...SINGLE, core, account: ACCOUNT, op: 'op3' }),
    ({ fresh: core }) => ({ ...SINGLE, core, account: 'newcomer', op: 'op4' }),
    ({ fresh: core, limits }) => ({
      ...SINGLE,
      core,
      account: 'newcomer',
      op: 'op7',
      total: 2,
      parts: [1, ...encodePages(tasksOf(2), 0), ...limitedRuns(limits, T0 + DAY_MS), ...limitedLanes(limits)],
    }),
  ],
  'task/retry': [
    ({ running: core, flown }) => ({ ...RETRY, core, index: (flown[0]?.index ?? 0) - 6 }),
    ({ failed: core }) => ({ ...RETRY, core, index: 7 }),
  ],
};

test('every script of a partition looks first whether its slot is on the move', () => {
  for (const one of Object.values(scripts)) {
    if (!one.keys.some((key) => key === 'meta')) continue;
    const [before, after] = textOf(one).split("call('EXISTS', meta, root .. '?')");
    assert.ok(after, `lua/${one.name}.lua includes lib/root`);
    const calls = before?.match(/\bp?call\('(?!TIME')/g);
    assert.equal(calls, null, `lua/${one.name}.lua asks for nothing before`);
  }
});

test('every call that is made here is of a script that exists', () => {
  const names = Object.values(scripts).map(({ name }) => name as string);
  assert.deepEqual(
    Object.keys(CALLS).filter((name) => !names.includes(name)),
    [],
  );
});

for (const one of Object.values(scripts) as unknown as AnyScript[]) {
  const limited = (LIMIT_CALLS[one.name] ?? []).map(
    (make) =>
      ({ limits }: Scene) =>
        make(limits),
  );
  const calls = [...(CALLS[one.name] ?? []), ...limited];
  if (calls.length === 0) continue;
  describe(one.name, () => {
    for (const [k, makeCall] of calls.entries()) {
      test(`call ${k + 1} in a slot that is half moved`, async () => {
        for (let seed = 0; seed < SEEDS; seed++) await halfMoved(one, makeCall, seed);
      });
    }
  });
}

interface Kept {
  scene: Scene;
  now_ms: number;
  /** Of each key: its name, the milliseconds it has left (0: no end) and its dump. */
  dumps: [string, number, Buffer][];
}
const kept = new Map<number, Kept>();

/** The scene of this seed: built once, put back for each call. */
async function sceneOn(source: ClockedRedis, seed: number): Promise<Scene> {
  const known = kept.get(seed);
  if (known === undefined) {
    const scene = await build(new Rig(source));
    const names = await source.keys('*');
    const ends_ms = await Promise.all(names.map((name) => source.pttl(name)));
    const dumps = await Promise.all(names.map((name) => source.dumpBuffer(name)));
    kept.set(seed, {
      scene,
      now_ms: source.now_ms,
      dumps: names.map((name, i) => [name, Math.max(0, ends_ms[i] ?? 0), dumps[i] as Buffer]),
    });
    return scene;
  }
  source.now_ms = known.now_ms;
  for (const client of clients.values()) await client.flushall();
  await Promise.all(known.dumps.map(([name, left_ms, dump]) => source.restore(name, left_ms, dump)));
  return known.scene;
}

async function halfMoved(one: AnyScript, makeCall: (typeof CALLS)[string][number], seed: number): Promise<void> {
  try {
    await moveAndCall(one, makeCall, seed);
  } catch (error) {
    // The next one begins with an empty cluster at rest.
    const slot = Number(await cluster.nodes[0]?.redis.cluster('KEYSLOT', META));
    for (const client of clients.values()) {
      await client.cluster('SETSLOT', slot, 'STABLE');
      await client.flushall();
    }
    throw error;
  }
}

async function moveAndCall(one: AnyScript, makeCall: (typeof CALLS)[string][number], seed: number): Promise<void> {
  const from = await cluster.masterOf(META);
  const to = [...clients.keys()].find((node) => node !== from) ?? assert.fail();
  const [source, target] = [clients.get(from) ?? assert.fail(), clients.get(to) ?? assert.fail()];
  const scene = await sceneOn(source, seed);
  const { late_ms = 0, ...args } = makeCall(scene);
  source.now_ms += late_ms;
  target.now_ms = source.now_ms;
  const slot = Number(await source.cluster('KEYSLOT', META));
  await target.cluster('SETSLOT', slot, 'IMPORTING', from.id);
  await source.cluster('SETSLOT', slot, 'MIGRATING', to.id);
  const names = (await source.cluster('GETKEYSINSLOT', slot, 1000)) as string[];
  const chosen = choose(names.sort(), seed);
  await migrate(source, to, chosen);

  for (const [client, asking] of [
    [source, false],
    [target, true],
  ] as const) {
    const where = `${one.name}, seed ${seed}, ${asking ? 'receiving' : 'giving'} side`;
    const before_call = [await dumpAll(source), await dumpAll(target)];
    const error = await callOn(client, one, args, asking);
    if (error === null) continue;
    assert.deepEqual([await dumpAll(source), await dumpAll(target)], before_call, `${where}: ${error.message}`);
    assert.ok(isUnavailable(error) || asking, `${where}: the caller is told to try again: ${error.message}`);
  }

  await migrate(source, to, (await source.cluster('GETKEYSINSLOT', slot, 1000)) as string[]);
  for (const client of [target, source]) await client.cluster('SETSLOT', slot, 'NODE', to.id);
  await until(async () => (await cluster.masterOf(META)) === to, 10_000, 'all to know who serves the slot');
  await checkPartition(target, 0);
  assert.equal(await callOn(target, one, args, false), null, `${one.name} works where the slot went`);
  await checkPartition(target, 0);
}

/** None, all, or a random half of the names; a small generator, so that a seed says it all. */
function choose(names: readonly string[], seed: number): string[] {
  let state = seed * 2_654_435_761 + 12_345;
  const next = (): number => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return state / 2 ** 32;
  };
  const share = seed === 0 ? 0.1 : seed === 1 ? 0.9 : 0.5;
  return names.filter((name) => (seed === 2 ? name === META || next() < share : next() < share));
}

async function migrate(source: Redis, to: TestNode, names: readonly string[]): Promise<void> {
  if (names.length > 0) await source.call('MIGRATE', '127.0.0.1', to.port, '', 0, 5000, 'KEYS', ...names);
}

/** Null, or the error that the script met. ASKING counts for the next command alone. */
async function callOn(client: ClockedRedis, one: AnyScript, args: Call, asking: boolean): Promise<Error | null> {
  const pipeline = client.pipeline();
  if (asking) pipeline.call('ASKING');
  one.queue(pipeline, { meta: META }, args);
  const replies = await execPipeline(client, pipeline);
  return replies.at(-1)?.[0] ?? null;
}

/** Every key of a node with its bytes and whether it expires, also of a slot that it is about to receive. */
async function dumpAll(client: Redis): Promise<Map<string, string>> {
  const names = await client.keys('*');
  const pipeline = client.pipeline();
  for (const name of names) {
    pipeline.call('ASKING');
    pipeline.dumpBuffer(name);
    pipeline.call('ASKING');
    pipeline.pttl(name);
  }
  const replies = ((await pipeline.exec()) ?? []).map(([error, reply]) => {
    if (error !== null) throw error;
    return reply;
  });
  return new Map(
    names.map((name, i) => [name, `${(replies[i * 4 + 1] as Buffer).toString('base64')} ${(replies[i * 4 + 3] as number) >= 0}`] as const),
  );
}
