// What is read, and when: real connections, and a clock by which each look takes longer than a slice, so that a turn reads what waited longest and no more.
import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { createServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import { Client } from 'undici';
import { groupBy } from '../../src/base/group-by.ts';
import { egressPolicy } from '../../src/outbound/addresses.ts';
import { guardedConnectors, type Opening } from '../../src/outbound/connector.ts';
import { Reading } from '../../src/outbound/reading.ts';
import { Resolver } from '../../src/outbound/resolver.ts';
import { listen } from './receiver.ts';

const COUNT = 40;
const ANSWER = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok';
const LOOK_MS = 10;

interface Stage {
  reading: Reading;
  slots: { opening: Socket | null; readNow: (() => void) | null; free: boolean; broken: boolean }[];
  /** The receiver's side. */
  asked: Socket[];
  /** Status and turn of each answer so far. */
  answered: { large: boolean; status: number; turn: number }[];
  /** Resolves when all were answered, rejects where one was not. */
  all: Promise<unknown>;
}

/** As many connections with a request on each, which are answered together by `answer`. */
async function together(t: TestContext, answer: (socket: Socket) => void): Promise<Stage> {
  let now_ms = 0;
  const clock = (): number => (now_ms += LOOK_MS);
  const reading = new Reading(clock);
  const policy = egressPolicy({ allow_private: true, allow_cidrs: [], deny_cidrs: [] });
  const connectorFor = guardedConnectors(policy, new Resolver(clock), reading, null);
  const asked: Socket[] = [];
  const origin = await listen(
    t,
    createServer((socket) => socket.once('data', () => asked.push(socket) === COUNT && asked.forEach(answer))),
  );
  let turn = 0;
  let watch = setImmediate(function next() {
    turn += 1;
    watch = setImmediate(next);
  });
  t.after(() => clearImmediate(watch));
  const slots = Array.from(
    { length: COUNT },
    () =>
      ({
        opening: null,
        readNow: null,
        free: false,
        broken: false,
        awaits_head: false,
        silent: false,
        takes: () => false,
      }) satisfies Opening,
  );
  const answered: Stage['answered'] = [];
  const all = slots.map(async (slot) => {
    const client = new Client(origin, { connect: connectorFor(slot), pipelining: 1 });
    t.after(() => client.destroy());
    const { statusCode, headers, body } = await client.request({ path: '/', method: 'POST', body: 'x' });
    answered.push({ large: headers['x-large'] !== undefined, status: statusCode, turn });
    assert.equal(await body.text(), 'ok');
  });
  return { reading, slots, asked, answered, all: Promise.all(all) };
}

/** The most that were answered in one turn. */
const most = ({ answered }: Stage): number => Math.max(...[...groupBy(answered, ({ turn }) => turn).values()].map(({ length }) => length));

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((next) => setImmediate(next));
}

test('answers that come together are read over many turns', async (t) => {
  const stage = await together(t, (socket) => socket.write(ANSWER));
  await until(() => stage.answered.length > 3);
  assert.equal(stage.reading.behind, true, 'they wait for longer than they should');
  await stage.all;
  assert.ok(stage.answered.every(({ status }) => status === 200));
  assert.ok(most(stage) <= 2, `${most(stage)} in one turn`);
  await until(() => !stage.reading.behind);
});

test('what has come is read before the end of its connection is', async (t) => {
  const stage = await together(t, (socket) => socket.end(ANSWER));
  await stage.all;
  assert.equal(stage.answered.length, COUNT);
});

test('what has come is read before the connection is given up', async (t) => {
  const stage = await together(t, (socket) => socket.write(ANSWER));
  await until(() => stage.answered.length > 0);
  await new Promise((next) => setImmediate(next));
  const before = stage.answered.length;
  assert.ok(before < 10, `${before} were read`);
  for (const socket of stage.asked) socket.resetAndDestroy();
  await stage.all;
  assert.equal(stage.answered.length, COUNT);
  assert.ok(
    stage.slots.every(({ broken }) => broken),
    'no other request goes there',
  );
});

test('an answer that is asked for, or too large to be kept, does not wait', async (t) => {
  let n = 0;
  const stage = await together(t, (socket) => {
    const rest = n++ === COUNT - 1 ? `x-large: ${'x'.repeat(8_000)}\r\n` : '';
    socket.write(ANSWER.replace('\r\n\r\n', `\r\n${rest}\r\n`));
  });
  await until(() => stage.answered.length > 0);
  await new Promise((next) => setImmediate(next));
  const before = stage.answered.length;
  assert.ok(before < 10, `${before} were read`);
  assert.ok(
    stage.answered.some(({ large }) => large),
    'the large one was read at once',
  );
  for (const slot of stage.slots) slot.readNow?.();
  assert.equal(await Promise.race([stage.all.then(() => 'all'), new Promise((next) => setImmediate(next, 'a turn'))]), 'all');
});

test('what comes on a connection without a request does not wait', async (t) => {
  const stage = await together(t, (socket) => socket.write(ANSWER));
  for (const slot of stage.slots) slot.free = true;
  await stage.all;
  assert.ok(most(stage) > 2, `${most(stage)} in one turn`);
});
