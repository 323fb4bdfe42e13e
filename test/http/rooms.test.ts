import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, it } from 'node:test';
import { Demand, restsBy } from '../../src/base/breath.ts';
import { Rooms } from '../../src/base/rooms.ts';
import { ADMIN, type Door, head, openDoor } from './door.ts';

const BYTES = 3_000_000;

/** A JSON body of this many bytes, all of one letter. */
function bodyOf(letter: string, bytes = BYTES): string {
  return `{"tasks":["${letter.repeat(bytes - 14)}"]}`;
}

function send(door: Door, body: string): Promise<{ status: number }> {
  return door.ask('POST', '/v1/batches', { body, headers: { 'content-type': 'application/json' } });
}

function received(door: Door, call: number): Buffer {
  const body = door.calls[call]?.call.raw_body;
  assert.ok(body);
  return body;
}

describe('rooms for large bodies', () => {
  it('more bodies at once than may come into rooms: each arrives as it was sent', async () => {
    const door = await openDoor({ max_body_bytes: 4_000_000 });
    const bodies = [...'abcdefghijkl'].map((letter, i) => bodyOf(letter, BYTES + i));
    const answers = await Promise.all(bodies.map((body) => send(door, body)));
    assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([201]));
    assert.deepEqual(new Set(door.calls.map(({ call }) => call.raw_body?.toString())), new Set(bodies));
  });

  it('whoever has a body has it for good: the next goes elsewhere, until the room is given back', async () => {
    const rooms = new Rooms();
    const door = await openDoor({ max_body_bytes: 4_000_000, large: { rooms, served: () => {} } });
    await send(door, bodyOf('a'));
    await send(door, bodyOf('b'));
    const [first, second] = [received(door, 0), received(door, 1)];
    assert.notEqual(first.buffer, second.buffer);
    assert.equal(first.toString(), bodyOf('a'));
    const memory = first.buffer;
    rooms.give(memory);
    await send(door, bodyOf('c'));
    assert.equal(received(door, 2).buffer, memory);
    assert.equal(received(door, 2).toString(), bodyOf('c'));
    assert.equal(second.toString(), bodyOf('b'));
  });

  it('a client that goes away in the middle leaves its room to the next', async () => {
    const rooms = new Rooms();
    const door = await openDoor({ max_body_bytes: 4_000_000, large: { rooms, served: () => {} } });
    const record = async (count: number) => {
      while (door.records.length < count) await new Promise(setImmediate);
    };
    // More of them than may come at a time: not one place stays taken.
    for (let i = 1; i <= 6; i++) {
      const { socket } = await door.dial();
      socket.write(
        head('POST /v1/batches', { 'content-type': 'application/json', authorization: `Bearer ${ADMIN}`, 'content-length': BYTES }),
      );
      if (!socket.write('x'.repeat(2_500_000))) await once(socket, 'drain');
      socket.destroy();
      await record(i);
    }
    assert.ok(rooms.open());
    const given = await rooms.take(BYTES);
    rooms.leave();
    rooms.give(given.buffer);
    await send(door, bodyOf('y'));
    assert.equal(received(door, 0).buffer, given.buffer);
    assert.equal(received(door, 0).toString(), bodyOf('y'));
  });

  it('keeps two, and takes nothing that it did not give', async () => {
    const rooms = new Rooms();
    const taken = await Promise.all([1, 2, 3].map((bytes) => rooms.take(bytes)));
    for (const room of taken) rooms.give(room.buffer);
    rooms.give(new ArrayBuffer(16));
    rooms.give(new SharedArrayBuffer(16));
    const again = await Promise.all([4, 5, 6].map((bytes) => rooms.take(bytes)));
    const kept = again.filter(({ buffer }) => taken.some((room) => room.buffer === buffer));
    assert.equal(kept.length, 2);
    assert.deepEqual(
      again.map(({ length }) => length),
      [4, 5, 6],
    );
  });
});

describe('a thread that rests', () => {
  it('rests as it was told while others ask, shortly where one of its kind waits behind it, and not while nobody does', () => {
    const demand = new Demand();
    let now_ms = 0;
    const rest_ms = restsBy(new Demand(demand.cells), 4, () => now_ms);
    demand.called(1);
    assert.equal(rest_ms(), 0);
    demand.served();
    assert.equal(rest_ms(), 4);
    now_ms = 999;
    assert.equal(rest_ms(), 4);
    demand.called(1);
    assert.equal(rest_ms(), 0.5);
    demand.called(-1);
    assert.equal(rest_ms(), 4);
    now_ms = 1000;
    assert.equal(rest_ms(), 0);
    demand.called(1);
    assert.equal(rest_ms(), 0);
    demand.served();
    assert.equal(rest_ms(), 0.5);
    demand.called(-1);
    assert.equal(rest_ms(), 4);
  });
});
