// lua/outbox: messages reach another partition once, in their order, and nothing stays behind.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { keys } from '../../../src/store/keys.ts';
import {
  AWAY_AFTER_MS,
  acknowledge,
  askLanes,
  book,
  MESSAGES_MAX,
  readOverdue,
  readSlices,
  receive,
  relay,
  SLICE_MS_MAX,
  type Slice,
  sweep,
} from '../../../src/store/outbox.ts';
import { append, coreOf, laneOf, rangeOf, readHeld, type Send } from '../../helpers/outbox.ts';
import { startRig, T0 } from '../../helpers/rig.ts';

const rig = await startRig();
const { redis } = rig;
after(() => redis.disconnect());
beforeEach(() => rig.reset());

const HERE = 0;
const THERE = 2;
const LANE = laneOf(THERE);
const FIRST_SEQUENCE = T0 * 1000;

function hands(count: number, lane = LANE, label = 'ref'): Send[] {
  return Array.from({ length: count }, (_, i) => ['hand', lane, `${label}${i}`] as const);
}

async function onlySlice(messages_max = MESSAGES_MAX): Promise<Slice> {
  const { slices } = await readSlices(redis, HERE, { messages_max });
  assert.equal(slices.length, 1);
  return slices[0] ?? assert.fail();
}

async function lane(name = LANE, partition = THERE): Promise<string[]> {
  return (await readHeld(redis, partition)).lanes[name] ?? [];
}

/** Hands references over and lets the wait until they are asked about begin. */
async function handed(...refs: string[]): Promise<void> {
  await append(
    redis,
    HERE,
    refs.map((ref) => ['hand', LANE, ref] as const),
  );
  await relay(redis, HERE);
}

describe('appending', () => {
  test('sequences are the time in µs, or one more than the last', async () => {
    assert.equal(await append(redis, HERE, hands(3)), FIRST_SEQUENCE + 2);
    assert.equal(await append(redis, HERE, hands(1, LANE, 'b')), FIRST_SEQUENCE + 3);
    rig.pass(5);
    assert.equal(await append(redis, HERE, hands(1, LANE, 'c')), FIRST_SEQUENCE + 5000);
    rig.pass(-60_000);
    assert.equal(await append(redis, HERE, hands(1, LANE, 'd')), FIRST_SEQUENCE + 5001);
  });

  test('a message lies with its destination, its reference is away', async () => {
    await append(redis, HERE, [
      ['hand', LANE, 'a'],
      ['hand', laneOf(1), 'b'],
      ['drop', LANE, 'a'],
    ]);
    const held = await readHeld(redis, HERE);
    const textOf = (lane: string, ref: string): string => `f:acme:o1|${coreOf(HERE, ref)},0,0,0,0,30,${T0};${lane},w,1,${T0},0`;
    assert.deepEqual(held.outbox, {
      2: [`${FIRST_SEQUENCE} queue ${LANE} ${textOf(LANE, 'a')}`, `${FIRST_SEQUENCE + 2} drop ${LANE} ${coreOf(HERE, 'a')}`],
      1: [`${FIRST_SEQUENCE + 1} queue ${laneOf(1)} ${textOf(laneOf(1), 'b')}`],
    });
    assert.deepEqual(held.away, {
      [`${LANE} ${rangeOf(HERE, 'a')}`]: `${FIRST_SEQUENCE} ${textOf(LANE, 'a')}`,
      [`${laneOf(1)} ${rangeOf(HERE, 'b')}`]: `${FIRST_SEQUENCE + 1} ${textOf(laneOf(1), 'b')}`,
    });
  });

  test('a script that sends nothing leaves nothing', async () => {
    const before = await rig.dump(HERE);
    await append(redis, HERE, []);
    assert.deepEqual(await rig.dump(HERE), before);
  });

  test('2,000 messages of one script all come over', async () => {
    await append(redis, HERE, hands(2000));
    assert.deepEqual(await relay(redis, HERE, { rounds_max: 3 }), {
      moved: 1500,
      waiting: true,
      reached: [THERE],
      wrote: [],
      failed: [],
    });
    assert.equal((await relay(redis, HERE)).waiting, false);
    assert.deepEqual(
      await lane(),
      hands(2000).map(([, , ref]) => ref),
    );
  });
});

describe('slice', () => {
  test('shares what a call may carry between destinations, the one that waits longest first', async () => {
    await append(redis, HERE, hands(10));
    await append(redis, HERE, [...hands(10, laneOf(1)), ...hands(1, laneOf(3))]);
    const { slices, more } = await readSlices(redis, HERE, { messages_max: 9 });
    assert.deepEqual(
      slices.map(({ destination, messages }) => [destination, messages.length]),
      [
        [THERE, 3],
        [1, 3],
        [3, 1],
      ],
    );
    assert.equal(more, true);
    assert.deepEqual(
      (await readSlices(redis, HERE, { except: [THERE, 1] })).slices.map(({ destination }) => destination),
      [3],
    );
  });

  test('changes nothing', async () => {
    await append(redis, HERE, hands(5));
    const before = await rig.dump(HERE);
    await readSlices(redis, HERE);
    assert.deepEqual(await rig.dump(HERE), before);
  });

  test('never shows more than 500', async () => {
    await append(redis, HERE, hands(600));
    assert.equal((await onlySlice(10_000)).messages.length, MESSAGES_MAX);
  });
});

describe('receive', () => {
  test('a slice that comes again is left out, and may be acknowledged', async () => {
    await append(redis, HERE, hands(3));
    const slice = await onlySlice();
    const mark = FIRST_SEQUENCE + 2;
    assert.deepEqual(await receive(redis, HERE, slice), { mark, done: 3, applied: 3, wrote: false });
    const before = await rig.dump(THERE);
    assert.deepEqual(await receive(redis, HERE, slice), { mark, done: 3, applied: 0, wrote: false });
    assert.deepEqual(await rig.dump(THERE), before);
  });

  test('of a longer slice only the new end is applied', async () => {
    await append(redis, HERE, hands(2));
    await receive(redis, HERE, await onlySlice());
    await append(redis, HERE, hands(2, LANE, 'late'));
    assert.equal((await receive(redis, HERE, await onlySlice())).applied, 2);
    assert.deepEqual(await lane(), ['ref0', 'ref1', 'late0', 'late1']);
  });

  test('what is late cannot bring back what was dropped since', async () => {
    await append(redis, HERE, [['hand', LANE, 'a']]);
    const late = await onlySlice();
    await relay(redis, HERE);
    await append(redis, HERE, [['drop', LANE, 'a']]);
    await relay(redis, HERE);
    const before = await rig.dump(THERE);
    assert.equal((await receive(redis, HERE, late)).applied, 0);
    assert.deepEqual(await rig.dump(THERE), before);
  });

  test('messages of one call see one another', async () => {
    await append(redis, HERE, [
      ['hand', LANE, 'a'],
      ['hand', LANE, 'b'],
      ['hand', LANE, 'a'],
      ['hand', LANE, 'c'],
      ['drop', LANE, 'b'],
      ['drop', LANE, 'unknown'],
    ]);
    assert.equal((await relay(redis, HERE)).moved, 6);
    assert.deepEqual(await lane(), ['a', 'b', 'c']);
    const waiting = await redis.hget(keys.lane(THERE, LANE).slice(0, -2), 'waiting');
    assert.equal(waiting, '2', 'what was dropped leaves the line when it comes to its front');
  });

  test('marks of sources are apart, and a partition may send to itself', async () => {
    await append(redis, HERE, hands(1));
    await append(redis, 1, hands(1, LANE, 'one'));
    await append(redis, THERE, hands(1, LANE, 'own'));
    for (const source of [HERE, 1, THERE]) assert.equal((await relay(redis, source)).moved, 1);
    assert.deepEqual((await lane()).sort(), ['one0', 'own0', 'ref0']);
    assert.deepEqual(Object.keys((await readHeld(redis, THERE)).hw), ['0', '1', '2']);
  });

  test('a slice that is not ascending changes nothing', async () => {
    await append(redis, HERE, hands(3));
    const slice = await onlySlice();
    slice.messages.reverse();
    const before = await rig.dump(THERE);
    await assert.rejects(receive(redis, HERE, slice), /not ascending/);
    assert.deepEqual(await rig.dump(THERE), before);
  });

  test('what was read long ago is not delivered', async () => {
    await append(redis, HERE, hands(1));
    const slice = await onlySlice();
    await assert.rejects(receive(redis, HERE, { ...slice, read_ms: slice.read_ms - SLICE_MS_MAX - 1000 }), /read more than/);
    assert.deepEqual(await lane(), []);
  });

  test('a kind from a newer version stops what comes behind it, and nothing is lost', async () => {
    await append(redis, HERE, [
      ['hand', LANE, 'a'],
      ['odd', LANE, 'b'],
      ['hand', LANE, 'c'],
    ]);
    assert.deepEqual(await relay(redis, HERE), { moved: 1, waiting: true, reached: [THERE], wrote: [], failed: [] });
    assert.deepEqual(await relay(redis, HERE), { moved: 0, waiting: true, reached: [THERE], wrote: [], failed: [] });
    assert.deepEqual(await lane(), ['a']);
    assert.equal((await readHeld(redis, HERE)).outbox['2']?.length, 2);
  });
});

describe('ack', () => {
  test('removes what was handed over, also twice, and nothing else', async () => {
    await append(redis, HERE, hands(2));
    const slice = await onlySlice();
    await append(redis, HERE, hands(1, LANE, 'new'));
    assert.equal(await acknowledge(redis, HERE, slice, FIRST_SEQUENCE + 1), true);
    assert.equal(await acknowledge(redis, HERE, slice, FIRST_SEQUENCE + 1), true);
    assert.equal((await readHeld(redis, HERE)).outbox['2']?.length, 1);
    assert.equal(await acknowledge(redis, HERE, await onlySlice(), FIRST_SEQUENCE + 2), false);
    assert.equal(await redis.exists(keys.outbox(HERE), keys.outbox(HERE, THERE)), 0);
  });

  test('a message that has the number of a forgotten one stays', async () => {
    await append(redis, HERE, [['hand', LANE, 'forgotten']]);
    const slice = await onlySlice();
    await rig.reset();
    await append(redis, HERE, [['hand', LANE, 'new']]);
    assert.equal(await acknowledge(redis, HERE, slice, FIRST_SEQUENCE), true);
  });

  test('lifts numbers above the mark, where a clock is behind that of a lost master', async () => {
    await append(redis, HERE, hands(1));
    await acknowledge(redis, HERE, await onlySlice(), FIRST_SEQUENCE + 1_000_000);
    assert.equal(await append(redis, HERE, hands(1, LANE, 'next')), FIRST_SEQUENCE + 1_000_001);
  });

  test('is not given where a replica did not confirm', async () => {
    await append(redis, HERE, hands(1));
    const confirm = async (): Promise<void> => {
      throw new Error('no replica has it');
    };
    const { moved, failed } = await relay(redis, HERE, { confirm });
    assert.deepEqual([moved, failed.map(({ destination }) => destination)], [0, [THERE]]);
    assert.equal((await relay(redis, HERE, { confirm: async () => true })).moved, 1);
    assert.deepEqual(await lane(), ['ref0']);
  });
});

describe('the sweep', () => {
  /** As a failover of the lane's side does. */
  async function lose(...refs: string[]): Promise<void> {
    const ranges = refs.map((ref) => rangeOf(HERE, ref));
    await redis.zrem(keys.lane(THERE, LANE), ...ranges);
    await redis.hdel(keys.lane(THERE, LANE).replace(/q$/, 'e'), ...ranges);
  }

  test('asks about what has been away for 30 s since it was acknowledged, and names it once', async () => {
    await append(redis, HERE, hands(2));
    rig.pass(AWAY_AFTER_MS);
    assert.deepEqual((await readOverdue(redis, HERE, AWAY_AFTER_MS)).references, [], 'its message waits');
    rig.pass(1000);
    await relay(redis, HERE);
    rig.pass(AWAY_AFTER_MS - 1);
    assert.deepEqual((await readOverdue(redis, HERE, AWAY_AFTER_MS)).references, [], 'too early');
    rig.pass(1);
    const { references } = await readOverdue(redis, HERE, AWAY_AFTER_MS);
    assert.deepEqual(references[0], { destination: THERE, field: `${LANE} ${rangeOf(HERE, 'ref0')}`, sequence: String(FIRST_SEQUENCE) });
    assert.equal(references.length, 2);
    assert.deepEqual((await readOverdue(redis, HERE, AWAY_AFTER_MS)).references, [], 'somebody is asking');
  });

  test('confirms what is where it should be, and asks less and less often', async () => {
    await handed('a');
    const asked: number[] = [];
    for (let s = 0; s < 1000; s += 10) {
      rig.pass(10_000);
      if ((await sweep(redis, HERE)).confirmed > 0) asked.push((rig.now_ms - T0) / 1000);
    }
    assert.deepEqual(asked, [30, 90, 210, 450, 930]);
    assert.deepEqual(await lane(), ['a']);
  });

  test('sends again what the lane has lost, to the end of its line', async () => {
    await handed('a', 'b', 'c');
    await lose('a', 'b');
    rig.pass(AWAY_AFTER_MS);
    assert.deepEqual(await sweep(redis, HERE), { confirmed: 1, resent: 2, forgotten: 0, failed: [] });
    await relay(redis, HERE);
    assert.deepEqual(await lane(), ['c', 'a', 'b']);
  });

  test('forgets what the lane does not know and nobody waits for', async () => {
    await handed('a', 'b');
    await append(redis, HERE, [['drop', LANE, 'a']]);
    await relay(redis, HERE);
    await lose('a', 'b');
    rig.pass(AWAY_AFTER_MS);
    assert.deepEqual(await sweep(redis, HERE), { confirmed: 0, resent: 1, forgotten: 1, failed: [] });
    await relay(redis, HERE);
    assert.deepEqual(await lane(), ['b']);
    assert.deepEqual(Object.keys((await readHeld(redis, HERE)).away), [`${LANE} ${rangeOf(HERE, 'b')}`]);
  });

  test('an answer that comes after a change is not booked', async () => {
    await handed('a');
    await lose('a');
    rig.pass(AWAY_AFTER_MS);
    const { asked_ms, references } = await readOverdue(redis, HERE, AWAY_AFTER_MS);
    const answers = await askLanes(redis, THERE, references);
    await append(redis, HERE, [['hand', LANE, 'a']]);
    const { away } = await readHeld(redis, HERE);
    assert.deepEqual(await book(redis, HERE, answers, asked_ms), { confirmed: 0, resent: 0, forgotten: 0 });
    assert.deepEqual((await readHeld(redis, HERE)).away, away);
  });

  test('an answer that is a second old is not booked', async () => {
    await handed('a');
    rig.pass(AWAY_AFTER_MS);
    const { asked_ms, references } = await readOverdue(redis, HERE, AWAY_AFTER_MS);
    const answers = await askLanes(redis, THERE, references);
    rig.pass(1000);
    assert.equal((await book(redis, HERE, answers, asked_ms)).confirmed, 0);
    rig.pass(-1);
    assert.equal((await book(redis, HERE, answers, asked_ms)).confirmed, 1);
  });

  test('a promoted source whose clock is behind loses no reference', async () => {
    await handed('old');
    rig.pass(-1000);
    await redis.del(keys.outbox(HERE), keys.away(HERE), keys.awaySince(HERE));
    await redis.hdel(keys.partition(HERE), 'seq');
    await append(redis, HERE, [['hand', LANE, 'new']]);
    assert.equal((await relay(redis, HERE)).moved, 1);
    assert.deepEqual(await lane(), ['old'], 'its number had been used');
    rig.pass(AWAY_AFTER_MS);
    assert.equal((await sweep(redis, HERE)).resent, 1);
    await relay(redis, HERE);
    assert.deepEqual((await lane()).sort(), ['new', 'old']);
  });

  test('a thousand are asked about in two rounds', async () => {
    await append(redis, HERE, hands(1000));
    await relay(redis, HERE);
    rig.pass(AWAY_AFTER_MS);
    assert.equal((await sweep(redis, HERE)).confirmed, 1000);
  });
});
