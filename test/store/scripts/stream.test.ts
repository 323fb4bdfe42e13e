// lua/stream/*.lua: tickets, places and looks; and the hints that a watched batch sends.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { Redis } from 'ioredis';
import { partitionOf } from '../../../src/base/id.ts';
import { keys } from '../../../src/store/keys.ts';
import { freePlaces, type Hint, lookAt, parseHint, readResults, TICKET_MS, takePlace, writeTicket } from '../../../src/store/streams.ts';
import { until } from '../../helpers/redis.ts';
import { ACCOUNT, startRig, T0 } from '../../helpers/rig.ts';

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(() => rig.reset());

const PLACES = { max: 3, place_ms: 25_000 };
const BY = { account_id: ACCOUNT, token: null };
const OTHER = { account_id: 'other', token: null };
const WATCH = { watch_ms: 15_000, tasks: true, streams: [], ...PLACES };
const take = async (core: string, stream: string | null, by: Parameters<typeof takePlace>[2] = BY): Promise<string> =>
  (await takePlace(rig.redis, core, by, stream, PLACES)).kind;

describe('stream/take and stream/ticket', () => {
  test('so many places and no more; one that is freed, or not renewed, can be taken again', async () => {
    const core = await rig.create();
    for (const name of ['a', 'b', 'c']) assert.equal(await take(core, name), 'taken');
    assert.deepEqual([await take(core, 'd'), await take(core, null)], ['full', 'full']);
    await freePlaces(rig.redis, core, ['b']);
    assert.deepEqual([await take(core, null), await take(core, 'd'), await take(core, 'e')], ['taken', 'taken', 'full']);
    rig.pass(20_000);
    await lookAt(rig.redis, core, { ...WATCH, streams: ['a'] });
    rig.pass(5_000);
    assert.deepEqual([await take(core, 'f'), await take(core, 'g'), await take(core, 'h')], ['taken', 'taken', 'full']);
  });

  test('a limit of 0 takes no places', async () => {
    const core = await rig.create();
    for (const name of ['a', 'b']) assert.equal((await takePlace(rig.redis, core, BY, name, { ...PLACES, max: 0 })).kind, 'taken');
    assert.equal(await rig.redis.exists(keys.streams(partitionOf(core), core)), 0);
  });

  test('only the owner of a batch gets a place or a ticket, and nobody of a tray', async () => {
    const core = await rig.create();
    assert.equal(await take(core, 'a', OTHER), 'missing');
    assert.equal(await writeTicket(rig.redis, OTHER, core, 't'), null);
    assert.equal(await take(rig.newCore(), 'a'), 'missing');
    await rig.redis.hset(keys.batch(partitionOf(core), core), 's', 'tray');
    assert.equal(await take(core, 'a'), 'missing');
    assert.equal(await writeTicket(rig.redis, BY, core, 't'), null);
  });

  test('a ticket is good once, for its batch; to be told whether it is does not use it up', async () => {
    const [core, other] = [await rig.create(), await rig.create()];
    assert.equal(await writeTicket(rig.redis, { ...BY, token: 'hash' }, core, 'secret'), T0 + TICKET_MS);
    const by = { ticket: 'secret' };
    assert.equal(await take(other, 'a', by), 'unknown');
    assert.equal(await take(core, null, by), 'taken');
    assert.deepEqual(await takePlace(rig.redis, core, by, 'a', PLACES), { kind: 'taken', account_id: ACCOUNT, token: 'hash' });
    assert.equal(await take(core, 'b', by), 'unknown');
    const names = await rig.redis.keys('*ticket*');
    await writeTicket(rig.redis, BY, core, 'secret');
    const [name = ''] = await rig.redis.keys('*ticket*');
    assert.deepEqual([names, name.includes('secret')], [[], false]);
    const left_ms = await rig.redis.pttl(name);
    assert.ok(left_ms > 0 && left_ms <= TICKET_MS);
  });
});

describe('stream/look', () => {
  test('shows the batch, and which streams have lost their places to others', async () => {
    const core = await rig.create({ tasks: 2 });
    for (const name of ['a', 'b', 'c']) await take(core, name);
    rig.pass(26_000);
    for (const name of ['d', 'e']) await take(core, name);
    const { batch, lost, hint } = await lookAt(rig.redis, core, { ...WATCH, streams: ['a', 'b', 'c'] });
    assert.deepEqual([batch?.core, batch?.total, batch?.status, lost, hint], [core, 2, 'pending', ['b', 'c'], 0]);
    assert.equal(await take(core, 'f'), 'full');
  });

  test('a batch that is gone is nobody’s', async () => {
    assert.deepEqual(await lookAt(rig.redis, rig.newCore(), WATCH), { hint: 0, batch: null, lost: [] });
  });
});

describe('hints', () => {
  const hintsOf = async (core: string): Promise<{ hints: Hint[]; stop(): void }> => {
    const hints: Hint[] = [];
    const redis = new Redis({ path: rig.redis.options.path ?? '' });
    redis.on('smessage', (_channel: string, text: string) => hints.push(parseHint(text)));
    await redis.ssubscribe(keys.progress(partitionOf(core), core));
    return { hints, stop: () => redis.disconnect() };
  };
  const came = (hints: readonly Hint[], count: number): Promise<void> => until(() => hints.length >= count, 2_000, `${count} hints`);

  test('go out with each change while somebody watches, numbered, and name the tasks that ended', async () => {
    const core = await rig.create({ tasks: 20 });
    const { hints, stop } = await hintsOf(core);
    const claimed = await rig.claim('h1', 16);
    await lookAt(rig.redis, core, WATCH);
    rig.pass(10);
    await rig.settle('h1', claimed.slice(0, 3), 'c');
    await rig.settle('h1', claimed.slice(3, 4), 'f');
    await rig.settle('h1', claimed.slice(4, 5), 'r', { delay_ms: 1000 });
    await rig.cancelTask(core, 19);
    await rig.cancel(core);
    await came(hints, 5);
    stop();
    assert.deepEqual(
      hints.map(({ number, ended }) => [number, ended]),
      [
        [1, [{ status: 'completed', from: 0, tasks: 3 }]],
        [2, [{ status: 'failed', from: 3, tasks: 1 }]],
        [3, []],
        [4, [{ status: 'cancelled', from: 19, tasks: 1 }]],
        [5, []],
      ],
    );
    const last = hints.at(-1)?.state;
    const expected = {
      status: 'cancelled',
      total: 20,
      completed: 3,
      failed: 1,
      cancelled: 5,
      running: 11,
      updated_ms: T0 + 10,
      finished_ms: null,
    };
    assert.deepEqual(last, expected);
    const results = await readResults(rig.redis, (await lookAt(rig.redis, core, WATCH)).batch ?? assert.fail(), [0, 3, 19]);
    assert.deepEqual([...results.keys()], [0, 3]);
  });

  test('name no tasks where nobody wants them, and end with the watch', async () => {
    const core = await rig.create({ tasks: 4 });
    const { hints, stop } = await hintsOf(core);
    const [a, b, c] = await rig.claim('h1', 4);
    assert.ok(a && b && c);
    await lookAt(rig.redis, core, { ...WATCH, tasks: false });
    await rig.settle('h1', [a], 'c');
    rig.pass(15_000);
    await rig.settle('h1', [b], 'c');
    assert.equal((await lookAt(rig.redis, core, WATCH)).hint, 1);
    await rig.settle('h1', [c], 'c');
    await came(hints, 2);
    stop();
    assert.deepEqual(
      hints.map(({ number, ended }) => [number, ended.length]),
      [
        [1, 0],
        [2, 1],
      ],
    );
  });

  test('tell the end, and when it was', async () => {
    const core = await rig.create({ tasks: 1 });
    const claimed = await rig.claim('h1', 1);
    const { hints, stop } = await hintsOf(core);
    await lookAt(rig.redis, core, WATCH);
    rig.pass(7);
    await rig.settle('h1', claimed, 'c');
    await came(hints, 1);
    stop();
    assert.deepEqual([hints[0]?.state.status, hints[0]?.state.finished_ms], ['completed', T0 + 7]);
  });
});
