// lua/secret/*.lua and lua/member/beat.lua: an account's signing secrets, and who is alive.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { keys } from '../../../src/store/keys.ts';
import { beat } from '../../../src/store/members.ts';
import { secretEnsure, secretRotate } from '../../../src/store/scripts.gen.ts';
import { rotateSecret, signingSecrets } from '../../../src/store/secrets.ts';
import { startRig, T0 } from '../../helpers/rig.ts';

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(() => rig.reset());

const DAY_MS = 24 * 3_600_000;
const secrets = keys.secrets('acme');

describe('secrets', () => {
  test('the first look makes one; all who look at once see the same', async () => {
    const seen = await Promise.all(Array.from({ length: 20 }, () => signingSecrets(rig.redis, 'acme')));
    for (const one of seen) assert.deepEqual(one, seen[0]);
    assert.equal(seen[0]?.length, 1);
    assert.deepEqual([seen[0]?.[0]?.created_ms, seen[0]?.[0]?.expires_ms], [T0, null]);
    assert.notDeepEqual(await signingSecrets(rig.redis, 'rival'), seen[0]);
  });

  test('a rotation puts a new one first and lets the one before live a day', async () => {
    const [first] = await signingSecrets(rig.redis, 'acme');
    rig.pass(1000);
    const rotated = await rotateSecret(rig.redis, 'acme');
    assert.deepEqual(rotated[1], { ...first, expires_ms: T0 + 1000 + DAY_MS });
    assert.deepEqual(await signingSecrets(rig.redis, 'acme'), rotated);
    rig.pass(DAY_MS - 1);
    assert.equal((await signingSecrets(rig.redis, 'acme')).length, 2);
    rig.pass(1);
    assert.deepEqual(await signingSecrets(rig.redis, 'acme'), rotated.slice(0, 1));
  });

  test('rotations in the same millisecond: the last one is first, and two are valid', async () => {
    await signingSecrets(rig.redis, 'acme');
    const second = await rotateSecret(rig.redis, 'acme');
    const third = await rotateSecret(rig.redis, 'acme');
    assert.equal(third.length, 2);
    assert.equal(third[1]?.id, second[0]?.id);
    assert.deepEqual(await signingSecrets(rig.redis, 'acme'), third);
    assert.equal(await rig.redis.hlen(secrets), 2);
  });

  test('a rotation of an account without any makes one', async () => {
    assert.equal((await rotateSecret(rig.redis, 'acme')).length, 1);
  });

  test('the same rotation again changes nothing and answers the same', async () => {
    await signingSecrets(rig.redis, 'acme');
    const args = { id: 'sec_new', secret: 'whsec_new', overlap_ms: DAY_MS };
    const first = await secretRotate.call(rig.redis, { secrets }, args);
    rig.pass(5);
    assert.deepEqual(await secretRotate.call(rig.redis, { secrets }, args), first);
    assert.equal((await signingSecrets(rig.redis, 'acme')).length, 2);
  });

  test('a first look repeated with the same secret answers the same', async () => {
    const args = { id: 'sec_1', secret: 'whsec_1' };
    assert.deepEqual(await secretEnsure.call(rig.redis, { secrets }, args), await secretEnsure.call(rig.redis, { secrets }, args));
  });
});

describe('member/beat', () => {
  const SILENCE_MS = 6000;
  const ids = async (id: string, callbacks: number, cron = 0): Promise<string[]> =>
    (await beat(rig.redis, id, { callbacks, cron }, SILENCE_MS)).members.callbacks.map((member) => `${member.id} ${member.threads}`).sort();

  test('who beats is seen by all, himself too', async () => {
    assert.deepEqual(await ids('a', 2), ['a 2']);
    assert.deepEqual(await ids('b', 3), ['a 2', 'b 3']);
    assert.deepEqual(await ids('', 0), ['a 2', 'b 3']);
  });

  test('who is silent for longer than allowed is not counted, and is when he beats again', async () => {
    await ids('a', 1);
    rig.pass(SILENCE_MS);
    assert.deepEqual(await ids('b', 1), ['a 1', 'b 1']);
    rig.pass(1);
    assert.deepEqual(await ids('b', 1), ['b 1']);
    assert.deepEqual(await ids('a', 1), ['a 1', 'b 1']);
  });

  test('who leaves is gone at once; who is silent for a minute is forgotten', async () => {
    await ids('a', 1);
    await ids('b', 1);
    assert.deepEqual(await ids('a', 0), ['b 1']);
    await ids('c', 1);
    rig.pass(60_001);
    await ids('d', 1);
    assert.deepEqual(await rig.redis.hkeys(keys.members('callbacks')), ['d']);
  });

  test('one beat is for both groups, each of which may have other members', async () => {
    await ids('a', 2);
    await ids('b', 0, 1);
    assert.deepEqual((await beat(rig.redis, 'c', { callbacks: 3, cron: 1 }, SILENCE_MS)).members, {
      callbacks: [
        { id: 'c', threads: 3 },
        { id: 'a', threads: 2 },
      ],
      cron: [
        { id: 'c', threads: 1 },
        { id: 'b', threads: 1 },
      ],
    });
    await ids('c', 3);
    assert.deepEqual((await beat(rig.redis, '', { callbacks: 0, cron: 0 }, SILENCE_MS)).members.cron, [{ id: 'b', threads: 1 }]);
  });

  test('tells when the first of the others, of either group, will have been silent for too long', async () => {
    const left_ms = async (id: string): Promise<number> => (await beat(rig.redis, id, { callbacks: 1, cron: 0 }, SILENCE_MS)).left_ms;
    assert.equal(await left_ms('a'), Number.POSITIVE_INFINITY);
    rig.pass(100);
    await ids('b', 0, 1);
    rig.pass(300);
    await ids('c', 1);
    rig.pass(50);
    assert.equal(await left_ms('c'), SILENCE_MS - 450);
    assert.equal(await left_ms('a'), SILENCE_MS - 350);
    await beat(rig.redis, 'b', { callbacks: 0, cron: 1 }, SILENCE_MS, 700);
    await ids('c', 1, 0);
    assert.equal(await left_ms('a'), SILENCE_MS);
  });

  test('a clock that steps back loses nobody', async () => {
    await ids('a', 1);
    rig.pass(-3_600_000);
    assert.deepEqual(await ids('b', 1), ['a 1', 'b 1']);
  });

  test('a look alone writes nothing', async () => {
    await ids('', 0);
    assert.equal(await rig.redis.exists(keys.members('callbacks'), keys.members('cron')), 0);
  });
});
