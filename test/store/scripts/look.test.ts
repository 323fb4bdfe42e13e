// lua/partition/look.lua, and lua/idem/*.lua: what is only read or remembered.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { keys } from '../../../src/store/keys.ts';
import { idemBegin, idemFinish, idemForget, partitionLook } from '../../../src/store/scripts.gen.ts';
import { startRig, T0 } from '../../helpers/rig.ts';

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(() => rig.reset());

const meta = keys.partition(0);

describe('partition/look', () => {
  test('counts what is ready by class and what waits, and says how old the oldest is', async () => {
    await rig.create({ tasks: 5 });
    await rig.settle('h1', await rig.claim('h1', 5), 'r');
    await rig.create({ tasks: [{}, {}, {}, { due_ms: T0 + 10_000 }], account: 'rival' });
    rig.pass(700);
    assert.deepEqual(await partitionLook.call(rig.redis, { meta }, { kinds: 'wc', lanes: ['none'] }), [3, 5, 0, 1, 700, [0, 0], [0]]);
  });

  test('an empty partition is empty, and a look writes nothing', async () => {
    const before = await rig.dump();
    assert.deepEqual(await partitionLook.call(rig.redis, { meta }, { kinds: '', lanes: [] }), [0, 0, 0, 0, 0, [], []]);
    assert.deepEqual(await rig.dump(), before);
  });
});

describe('idem/begin, idem/finish and idem/forget', () => {
  const place = { idem_key: 'acme:hash' };
  let notes = 0;
  /** Each with a note of its own, unless it says which. */
  const begun = (idem_print: string, note = `note${++notes}`) => idemBegin.call(rig.redis, { meta }, { ...place, idem_print, note });
  const begin = async (idem_print: string, note?: string): Promise<[print: string, reply: string, known: number]> => {
    const [print, reply, , known] = await begun(idem_print, note);
    return [print, reply, known];
  };

  test('the first to come holds the key; who comes later learns for what', async () => {
    const seen = await Promise.all(['p1', 'p2', 'p3'].map((print) => begin(print)));
    assert.equal(seen.filter(([, , known]) => known === 0).length, 1);
    assert.equal(new Set(seen.map(([print]) => print)).size, 1);
  });

  test('is being worked on for as long as a request may take; then one of those who come may do it again', async () => {
    await begin('p1');
    rig.pass(2_999);
    assert.deepEqual(await begin('p1'), ['p1', '', 2]);
    rig.pass(1);
    const seen = await Promise.all(['p2', 'p1', 'p1'].map((print) => begin(print)));
    assert.deepEqual(
      seen.map(([print, , known]) => [print, known]),
      [
        ['p1', 1],
        ['p1', 1],
        ['p1', 2],
      ],
    );
    // A clock that was set back frees it, too.
    rig.pass(-10_000);
    assert.deepEqual(await begin('p1'), ['p1', '', 1]);
  });

  test('one that was sent twice finds itself, and one without a note has others beside it', async () => {
    assert.deepEqual(
      [await begin('p1', 'mine'), await begin('p1', 'mine'), await begin('p1')],
      [
        ['p1', '', 0],
        ['p1', '', 0],
        ['p1', '', 2],
      ],
    );
    await idemForget.call(rig.redis, { meta }, { ...place, idem_print: 'p1', begun_ms: rig.now_ms, keep: 0 });
    assert.deepEqual(
      [await begin('p1', ''), await begin('p1', ''), await begin('p2', '')],
      [
        ['p1', '', 0],
        ['p1', '', 1],
        ['p1', '', 1],
      ],
    );
    assert.equal(await idemForget.call(rig.redis, { meta }, { ...place, idem_print: 'p1', begun_ms: 7, keep: 0 }), 1);
  });

  test('the first answer stays, byte for byte', async () => {
    await begin('p1');
    const answer = Buffer.from([0x7b, 0x7d, 0xc3, 0xa9]);
    for (const text of [answer, Buffer.from('other')])
      await idemFinish.call(rig.redis, { meta }, { ...place, idem_print: 'p1', answer: text });
    assert.deepEqual(await begin('p1'), ['p1', answer.toString(), 1]);
    assert.equal((await rig.dump()).get(`idem:${place.idem_key}`)?.expires, true);
  });

  test('whoever is late gives up, or finishes, nobody else’s', async () => {
    const [, , , , first_ms] = await begun('p1');
    rig.pass(3_000);
    const [, , , , second_ms] = await begun('p1');
    for (const keep of [0, 1]) {
      assert.equal(await idemForget.call(rig.redis, { meta }, { ...place, idem_print: 'p1', begun_ms: first_ms, keep }), 0);
    }
    assert.deepEqual(await begin('p1'), ['p1', '', 2]);
    assert.equal(await idemForget.call(rig.redis, { meta }, { ...place, idem_print: 'p1', begun_ms: second_ms, keep: 1 }), 1);
    // Nor once that one was left unfinished.
    assert.equal(await idemForget.call(rig.redis, { meta }, { ...place, idem_print: 'p1', begun_ms: first_ms, keep: 0 }), 0);
    assert.deepEqual(await begin('p1'), ['p1', '', 1]);
    assert.equal(await idemFinish.call(rig.redis, { meta }, { ...place, idem_print: 'p2', answer: Buffer.from('{}') }), 0);
    assert.deepEqual(await begin('p1'), ['p1', '', 2]);
  });

  test('a claim can be given up, but not another request’s, nor one with an answer', async () => {
    const forget = (idem_print: string): Promise<number> =>
      idemForget.call(rig.redis, { meta }, { ...place, idem_print, begun_ms: rig.now_ms, keep: 0 });
    await begin('p1');
    assert.equal(await forget('p2'), 0);
    assert.deepEqual(await begin('p1'), ['p1', '', 2]);
    assert.equal(await forget('p1'), 1);
    assert.deepEqual(await begin('p2'), ['p2', '', 0]);
    await idemFinish.call(rig.redis, { meta }, { ...place, idem_print: 'p2', answer: Buffer.from('{}') });
    assert.equal(await forget('p2'), 0);
    assert.deepEqual(await begin('p2'), ['p2', '{}', 1]);
  });
});
