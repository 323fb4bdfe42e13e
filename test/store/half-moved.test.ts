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
import { encodeTargets } from '../../src/store/notes.ts';
import { relay } from '../../src/store/outbox.ts';
import type { Claimed } from '../../src/store/partition.ts';
import { encodeRecord, encodeSegments, segmentFields } from '../../src/store/records.ts';
import { execPipeline, preload, type RestValue, type Script } from '../../src/store/script.ts';
import { scripts } from '../../src/store/scripts.gen.ts';
import { checkPartition } from '../helpers/check-partition.ts';
import { startCluster, type TestNode } from '../helpers/cluster.ts';
import { append, laneOf, readHeld } from '../helpers/outbox.ts';
import { until } from '../helpers/redis.ts';
import { ACCOUNT, ClockedRedis, Rig, SETTINGS, T0, tasksOf } from '../helpers/rig.ts';

const SEEDS = Number(process.env['HALF_MOVED_SEEDS'] ?? 5);
const META = keys.partition(0);
const DAY_MS = 86_400_000;

/** What the state that a script is called on has to offer. */
interface Scene {
  running: string;
  held: string;
  flown: Claimed[];
  built_ms: number;
  /** Wait in the outbox for the partition itself; those before them were handed over. */
  messages: string[];
  fresh: string;
  tray: string;
  /** Have ended; a third one has begun its second round. */
  failed: string;
  expired: string;
}

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

/** Notifications of each kind; those of progress may be merged. */
const ALL_EVENTS = 'pwebhookor110;fwebhookor1;swebhookor2;dwebhookor1;cwebhookor2;';

/** Something of everything: work that waits, runs, is late, has expired, is to be deleted; trays, maps, segments. */
async function build(rig: Rig): Promise<Scene> {
  rig.checks = false;
  await rig.reset(1);
  const failed = await ended(rig, 'f');
  const expired = await ended(rig, 'r');
  const again = await ended(rig, 'f');
  await rig.create({ tasks: 3, expiration_ms: 20_000, labels: ['aaaaaaaaaa'], notify: ALL_EVENTS });
  const silent = await rig.create({ tasks: 20 });
  await rig.claim('silent', 16);
  await rig.settle('silent', await rig.claim('silent', 1), 'r', { delay_ms: 15_000 });
  await rig.cancel(await rig.create({ tasks: 1100, notify: ALL_EVENTS }));
  await rig.cancelTask(silent, 19);
  for (let k = 0; k < 5; k++) {
    rig.pass(2500);
    await rig.tick('h1');
  }
  const running = await rig.create({ tasks: 1200, task_keys: ['k1'], notify: ALL_EVENTS });
  await rig.create({ tasks: Array.from({ length: 200 }, (_, i) => ({ origin: `o${i % 90}` })), account: 'rival' });
  const held = await rig.create({ hold: true, notify: ALL_EVENTS });
  const { core: tray } = await rig.single(3);
  await rig.single(1, { account: 'rival' });
  const flown: Claimed[] = [];
  for (let k = 0; k < 12; k++) flown.push(...(await rig.claim('h1', 64, { call_no: 1000 + k })));
  await rig.settle('h1', flown.splice(0, 20), 'c');
  await rig.settle('h1', flown.splice(0, 5), 'f');
  await rig.settle('h1', flown.splice(0, 5), 'r', { delay_ms: 1000 });
  await rig.settle(
    'h1',
    flown.filter(({ flight }) => flight.core === held),
    'c',
  );
  await rig.retryBatch(again);
  await stage(rig, keys.staged(0, running, 'op', 0), 300);
  const fresh = rig.newCore();
  await stage(rig, keys.staged(0, fresh, 'new', 0), 40);
  await append(
    rig.redis,
    0,
    [0, 1, 2].map((n) => ['hand', laneOf(0), `ref${n}`] as const),
  );
  await relay(rig.redis, 0);
  await append(rig.redis, 0, [
    ['release', laneOf(0), 'ref0'],
    ['hand', laneOf(0, 'other'), 'ref1'],
    ['hand', laneOf(1), 'ref2'],
    ['hand', laneOf(0, 'other'), 'ref9'],
  ]);
  const messages = (await readHeld(rig.redis, 0)).outbox['0'] ?? [];
  rig.checks = true;
  await rig.check();
  return {
    messages,
    built_ms: rig.now_ms,
    failed,
    expired,
    running,
    held,
    tray,
    fresh,
    flown: flown.filter(({ flight }) => flight.core === running),
  };
}

/** A batch that has ended: its tasks failed, or waited for a retry when it expired. */
async function ended(rig: Rig, verdict: 'f' | 'r'): Promise<string> {
  const notify = encodeTargets([{ event: 'on_finish', origin: 'webhookorg', min_interval_ms: 0 }]);
  const core = await rig.create({ tasks: 30, expiration_ms: 1000, labels: ['aaaaaaaaaa'], notify });
  await rig.settle('h3', await rig.claim('h3', 30), verdict, { delay_ms: 5000 });
  await rig.settle('h3', await rig.claim('h3', 30), 'c');
  rig.pass(1000);
  await rig.tick('h1');
  return core;
}

async function stage(rig: Rig, key: string, tasks: number): Promise<void> {
  const [segment] = encodeSegments(tasksOf(tasks));
  assert.ok(segment);
  await rig.redis.hset(key, ...segmentFields(segment));
  await rig.redis.pexpire(key, 60_000);
}

const RECORD = encodeRecord(tasksOf(1)[0] ?? assert.fail(), false);
const IDEM = { idem_key: `${ACCOUNT}:key`, idem_print: 'print', idem_extra: Buffer.from('{}') };
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
const CLAIM = { grace_ms: 5000, room: 1000, notes: 100, limits: [0, 0] };
const TICK = { ...KEEP, silence_ms: SETTINGS.silence_ms, gap_ms: SETTINGS.gap_ms, recoveries_max: 3, pressure: 0 };

function fieldOf(message: string): string {
  return message.split(' ').slice(3).join(' ');
}

function stagedName(core: string, operation: string): string {
  return keys.staged(0, core, operation, 0).slice(META.length - 1);
}

/** Of each script that works in a partition the calls that write most; `late` lets time pass first. */
/** Destinations that a slice leaves out: none. */
const skip: string[] = [];

const CALLS: Record<string, ((scene: Scene) => Call & { late_ms?: number })[]> = {
  'batch/add': [
    ({ running: core }) => ({ ...ADD, core, op: 'op1', total: 1, parts: [0, 1, RECORD, 1, 0, 0, 'o1', 30, 0, 1, 'k2'] }),
    ({ running: core }) => ({ ...ADD, core, op: 'op2', total: 1, parts: [0, 1, RECORD, 1, 0, 0, 'o1', 30, T0 + DAY_MS, 0] }),
    ({ running: core }) => ({
      ...ADD,
      core,
      op: 'op',
      total: 300,
      parts: [1, stagedName(core, 'op'), 300, 9000, 0, 1, 0, 299, 'o7', 30, 0, 0],
    }),
  ],
  'batch/cancel': [({ running: core }) => ({ core, account: ACCOUNT, keep_ms: 1 })],
  'batch/create': [
    ({ fresh: core }) => ({
      ...NEW,
      ...IDEM,
      core,
      total: 40,
      parts: [1, 0, 2, 0, 19, 'o1', 30, 0, 20, 39, 'o2', 30, T0 + DAY_MS, 1, 'k1'],
    }),
  ],
  'batch/read': [({ running: core }) => ({ core, account: ACCOUNT, limit: 100, states: 1 })],
  'batch/retry': [
    ({ failed: core }) => ({ core, account: ACCOUNT, op: 'op5', expiration_ms: DAY_MS, ...IDEM }),
    ({ expired: core }) => ({ core, account: ACCOUNT, op: 'op6', expiration_ms: DAY_MS, ...IDEM }),
  ],
  'batch/delete': [({ failed: core }) => ({ core, account: ACCOUNT })],
  'batch/sweep': [({ expired: core }) => ({ core, account: ACCOUNT, tasks_max: 20 })],
  'batch/release': [({ held: core }) => ({ core, account: ACCOUNT, keep_ms: 1 })],
  'idem/begin': [() => ({ idem_key: `${ACCOUNT}:key`, idem_print: 'print' })],
  'idem/finish': [() => ({ idem_key: `${ACCOUNT}:key`, idem_print: 'print', answer: Buffer.from('{}') })],
  'notification/redeliver': [({ failed: core }) => ({ core, index: 0, account: ACCOUNT })],
  'outbox/ack': [({ messages }) => ({ destination: 0, mark: 1, messages: messages.slice(0, 2) })],
  'outbox/ask': [() => ({ fields: [`${laneOf(0)} ref0`, `${laneOf(0, 'other')} ref9`] })],
  'outbox/away': [
    ({ messages, built_ms }) => ({
      asked_ms: built_ms,
      answers: messages.flatMap((message) => [fieldOf(message), message.split(' ')[0] ?? '', fieldOf(message).endsWith('1') ? 1 : 0]),
    }),
  ],
  'outbox/overdue': [() => ({ after_ms: 30_000, limit: 500, late_ms: 60_000 })],
  'outbox/receive': [({ messages }) => ({ source: 0, messages }), ({ messages }) => ({ source: 5, messages: messages.slice(1) })],
  'outbox/slice': [() => ({ messages_max: 500, destinations_max: 16, skip })],
  'partition/claim': [
    () => ({ ...CLAIM, holder: 'h1', call_no: 5000, budget: 128 }),
    () => ({ ...CLAIM, holder: 'h2', call_no: 5006, budget: 500, limits: [1, 'o2', 1, 'o1', 0] }),
    () => ({ ...CLAIM, holder: 'h1', call_no: 1011, budget: 64 }),
  ],
  'partition/look': [() => ({})],
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
  'task/cancel': [({ running: core }) => ({ ...KEEP, core, index: 1199, account: ACCOUNT })],
  'task/create': [
    ({ fresh: core }) => ({ ...IDEM, core, account: ACCOUNT, op: 'op3', total: 1, parts: [1, RECORD, 1, 0, 0, 'o1', 30, 0] }),
    ({ fresh: core }) => ({ ...IDEM, core, account: 'newcomer', op: 'op4', total: 1, parts: [1, RECORD, 1, 0, 0, 'o1', 30, 0] }),
  ],
  'task/retry': [
    ({ running: core, flown }) => ({
      core,
      index: (flown[0]?.index ?? 0) - 6,
      account: ACCOUNT,
      origin: 'o1',
      timeout_s: 30,
      expiration_ms: DAY_MS,
    }),
    ({ failed: core }) => ({ core, index: 7, account: ACCOUNT, origin: 'o1', timeout_s: 30, expiration_ms: DAY_MS }),
  ],
};

test('every script of a partition looks first whether its slot is on the move', () => {
  for (const { name, keys: declared, lua } of Object.values(scripts)) {
    if (!declared.some((key) => key === 'meta')) continue;
    const look = lua.indexOf("call('EXISTS', meta, root .. '?')");
    assert.ok(look > 0, `lua/${name}.lua includes lib/root`);
    const calls = lua.slice(0, look).match(/\bp?call\('(?!TIME')/g);
    assert.equal(calls, null, `lua/${name}.lua asks for nothing before`);
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
  const calls = CALLS[one.name] ?? [];
  if (calls.length === 0) continue;
  describe(one.name, () => {
    for (const [k, makeCall] of calls.entries()) {
      test(`call ${k + 1} in a slot that is half moved`, async () => {
        for (let seed = 0; seed < SEEDS; seed++) await halfMoved(one, makeCall, seed);
      });
    }
  });
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
  const scene = await build(new Rig(source));
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
