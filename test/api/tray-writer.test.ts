// Single tasks that come in together: few calls, a place for each, and no wait for one that comes alone.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { setImmediate as endOfTurn } from 'node:timers/promises';
import { Placement } from '../../src/api/placement.ts';
import { type Place, TrayWriter } from '../../src/api/tray-writer.ts';
import type { NewTask } from '../../src/store/records.ts';
import { ACCOUNT, startRig, T0 } from '../helpers/rig.ts';

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(() => rig.reset());

const HEAD = Buffer.from('{"target":"http://127.0.0.1/"}');
const task = (): NewTask => ({ head: HEAD, payload: null, origin: 'o1', timeout_s: 30, due_ms: 0, limit: null });

function startWriter(): TrayWriter {
  return new TrayWriter({ client: rig.redis, placement: new Placement({ now: 1 }), clock: () => T0 });
}

const write = (writer: TrayWriter, count: number, account = ACCOUNT): Promise<Place>[] =>
  Array.from({ length: count }, () => writer.write(account, task()));

/** The calls that `work` makes, once what it needs is known to Redis. */
async function callsOf(work: () => Promise<unknown>): Promise<number> {
  await startWriter().write('0000000000', task());
  const before = await rig.scriptCalls();
  await work();
  return (await rig.scriptCalls()) - before;
}

/** The fewest of five tries: a process that the system puts aside for milliseconds in between finds less that came together. */
async function fewestOf(work: () => Promise<unknown>): Promise<number> {
  const counts: number[] = [];
  for (let i = 0; i < 5; i++) counts.push(await callsOf(work));
  return Math.min(...counts);
}

describe('single tasks that come in together', () => {
  test('go in one call after the first, and each has a place of its own', async () => {
    let places: Place[] = [];
    const calls = await callsOf(async () => {
      places = await Promise.all(write(startWriter(), 50));
    });
    assert.equal(calls, 2);
    assert.deepEqual(new Set(places.map(({ core, index }) => `${core},${index}`)).size, 50);
  });

  test('go in one call, the first included, right after others came together', async () => {
    const calls = await fewestOf(async () => {
      const writer = startWriter();
      await Promise.all(write(writer, 50));
      await Promise.all(write(writer, 50));
    });
    assert.equal(calls, 3);
  });

  test('are waited for over several turns of the loop', async () => {
    const calls = await fewestOf(async () => {
      const writer = startWriter();
      await Promise.all(write(writer, 2));
      const written: Promise<Place>[] = [];
      for (let turn = 0; turn < 5; turn++) {
        written.push(...write(writer, 1));
        await endOfTurn();
      }
      await Promise.all(written);
    });
    assert.equal(calls, 3);
  });

  test('of two accounts are in no common call', async () => {
    const writer = startWriter();
    const calls = await callsOf(() => Promise.all([...write(writer, 3), ...write(writer, 3, '1111111111')]));
    assert.equal(calls, 4);
  });

  test('one that comes alone is sent in the turn in which it came', async () => {
    const writer = startWriter();
    const sent: string[] = [];
    const send = rig.redis.sendCommand.bind(rig.redis);
    rig.redis.sendCommand = (command, stream) => {
      sent.push(command.name);
      return send(command, stream);
    };
    const place = writer.write(ACCOUNT, task());
    rig.redis.sendCommand = send;
    assert.equal(sent.filter((name) => name === 'evalsha').length, 1);
    assert.equal((await place).index, 0);
  });

  test('all fail where their call fails, and the next ones go on', async () => {
    const writer = startWriter();
    const broken = { ...task(), origin: undefined as unknown as string };
    const first = writer.write(ACCOUNT, task());
    const failing = [writer.write(ACCOUNT, broken), writer.write(ACCOUNT, task())].map((one) =>
      one.then(
        () => 'written',
        () => 'failed',
      ),
    );
    assert.deepEqual([(await first).index, await Promise.all(failing)], [0, ['failed', 'failed']]);
    assert.equal((await writer.write(ACCOUNT, task())).index, 1);
  });
});
