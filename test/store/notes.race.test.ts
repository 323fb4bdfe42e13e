// The finish race: four holders tell the last outcomes of 10,000 tasks at once while tasks are added and a cancel comes.
// However it goes, the batch ends once, its counters are exact, and each finish was told of once.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { Redis } from 'ioredis';
import { newCore } from '../../src/base/id.ts';
import * as batches from '../../src/store/batches.ts';
import { encodeAdded, encodeTasks } from '../../src/store/encoded.ts';
import { keys } from '../../src/store/keys.ts';
import { decodeNote, encodeTargets, type Note, notesCore } from '../../src/store/notes.ts';
import { type Claimed, preparePartitions, type Settlement, turn } from '../../src/store/partition.ts';
import { decodePage } from '../../src/store/records.ts';
import { checkPartition } from '../helpers/check-partition.ts';
import { startRedis } from '../helpers/redis.ts';
import { SETTINGS, tasksOf } from '../helpers/rig.ts';

const TASKS = 10_000;
const HOLDERS = ['h1', 'h2', 'h3', 'h4'];
const EVENTS = ['on_finish', 'on_success', 'on_death', 'on_complete'] as const;
const KEEP = { keep_ms: 1e9, tray_keep_ms: 1e9 };
const { path } = await startRedis();
/** A connection each, as threads have. */
const clients = new Map(HOLDERS.map((holder) => [holder, new Redis({ path })]));
const front = new Redis({ path });
after(() => {
  for (const client of [front, ...clients.values()]) client.disconnect();
});

async function claimAll(holder: string, client: Redis, call_no: { next: number }): Promise<Claimed[]> {
  const tasks: Claimed[] = [];
  for (let more = true; more; ) {
    const claim = { call_no: call_no.next++, budget: 128, room: TASKS, unpark: [], rooms: [], notes: 0, suspects: 10 };
    const { claimed } = await turn(client, 0, { ...SETTINGS, ...KEEP, holder }, { settlements: [], tick: false, claim });
    assert.ok(claimed !== null && !(claimed instanceof Error));
    tasks.push(...claimed.tasks);
    more = claimed.tasks.length > 0;
  }
  return tasks;
}

async function settleAll(holder: string, client: Redis, settlements: readonly Settlement[], each: number): Promise<void> {
  const sent: Promise<unknown>[] = [];
  for (let at = 0; at < settlements.length; at += each) {
    const request = { settlements: settlements.slice(at, at + each), tick: false, claim: null };
    sent.push(
      turn(client, 0, { ...SETTINGS, ...KEEP, holder }, request).then(({ settled }) => {
        if (settled instanceof Error) throw settled;
        assert.deepEqual(settled?.left, []);
      }),
    );
  }
  await Promise.all(sent);
}

async function notesOf(core: string): Promise<Note[]> {
  const pages = await front.hgetallBuffer(keys.segment(0, notesCore(core), 0));
  const numbers = Object.keys(pages).filter((field) => /^\d+$/.test(field));
  return numbers
    .sort((a, b) => Number(a) - Number(b))
    .flatMap((field) => decodePage(pages[field] ?? Buffer.alloc(0)).map(({ payload }) => decodeNote(payload ?? Buffer.alloc(0))));
}

for (const [name, cancels, failures] of [
  ['all complete', false, 0],
  ['some fail', false, 7],
  ['a cancel comes', true, 0],
] as const) {
  test(`10,000 tasks end at once on four threads while tasks are added: ${name}`, async () => {
    await front.flushall();
    await preparePartitions(front, 1);
    const core = newCore(0, Date.now());
    const account_id = 'acme';
    await batches.createBatch(front, {
      ...{ partition: 0, core, account_id, doc: Buffer.from('{"notifications":{}}'), tasks: encodeTasks(tasksOf(TASKS)) },
      ...{ expiration_ms: 1e9, expires_from_ms: 0, movable: false, hold: false, task_keys: [] },
      notify: encodeTargets(EVENTS.map((event) => ({ event, origin: 'webhookorg', min_interval_ms: 0 }))),
    });
    const call_no = { next: 1 };
    const flights = await Promise.all(
      [...clients].map(async ([holder, client]) => [holder, await claimAll(holder, client, call_no)] as const),
    );
    assert.equal(flights.flatMap(([, tasks]) => tasks).length, TASKS);
    const adds = Array.from({ length: 20 }, () => 1).map(() =>
      batches.addTasks(front, {
        ...{ account_id, core, operation: batches.newOperation(), tasks: encodeAdded(tasksOf(1, 'late')) },
        ...{ expires_from_ms: 0, expiration_ms: 1e9, task_keys: [] },
      }),
    );
    const settles = flights.map(([holder, tasks]) => {
      const settlements = tasks.map(({ flight, index }) => {
        const verdict = index < failures ? ('f' as const) : ('c' as const);
        return { flight, index, verdict, delay_ms: 0, result: '[1,0,200,5]' };
      });
      return settleAll(holder, clients.get(holder) ?? front, settlements, 173);
    });
    const cancel = cancels ? batches.cancelBatch(front, account_id, core, KEEP) : null;
    const [outcomes, , stopped] = await Promise.all([Promise.all(adds), Promise.all(settles), cancel]);
    const added = outcomes.filter(({ kind }) => kind === 'added').length;
    // What was added runs now, unless the cancel caught it.
    const late = await claimAll('h1', clients.get('h1') ?? front, call_no);
    await settleAll(
      'h1',
      clients.get('h1') ?? front,
      late.map(({ flight, index }) => ({ flight, index, verdict: 'c', delay_ms: 0, result: '' })),
      5,
    );

    const batch = (await checkPartition(front, 0)).get(core);
    assert.ok(batch);
    assert.deepEqual([batch.n, batch.c + batch.f + batch.x, batch.r, batch.f], [TASKS + added, TASKS + added, 0, failures]);
    const notes = await notesOf(core);
    const count = (event: Note['event']): number => notes.filter((note) => note.event === event).length;
    const status = stopped?.kind === 'cancelled' ? 'cancelled' : failures > 0 ? 'failed' : 'completed';
    assert.equal(batch.status, status);
    const success = status === 'completed' ? 1 : 0;
    assert.deepEqual(
      [count('on_finish'), count('on_complete'), count('on_success'), count('on_death')],
      [1, 1, success, failures > 0 ? 1 : 0],
    );
    const finish = notes.find(({ event }) => event === 'on_finish');
    assert.deepEqual([finish?.total, finish?.completed, finish?.failed, finish?.cancelled], [batch.n, batch.c, batch.f, batch.x]);
  });
}
