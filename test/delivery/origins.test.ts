import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { BREAKER_FAILURES, BREAKER_PROBE_MS } from '../../src/base/limits.ts';
import { Origins, PROBE_WAIT_MS } from '../../src/delivery/origins.ts';

/** A thread's origins on a clock that stands until the test moves it. */
function setUp(cap = 2048): { origins: Origins; clock: { ms: number }; places: { free: number }; turns: { long: boolean } } {
  const clock = { ms: 1_000 };
  const places = { free: 4096 };
  const turns = { long: false };
  const origins = new Origins(cap, { free: () => places.free, behind: () => turns.long }, () => clock.ms);
  return { origins, clock, places, turns };
}

function roomOf(origins: Origins, name: string): number | undefined {
  return origins.rooms([]).find(([origin]) => origin === name)?.[1];
}

function answerAll(origins: Origins, name: string, calls: number, duration_ms: number): void {
  for (let i = 0; i < calls; i++) origins.began(name);
  for (let i = 0; i < calls; i++) origins.ended(name, null, duration_ms);
}

describe('room of an origin', () => {
  test('a host that never answers holds 1,024 places, however many are free', () => {
    const { origins } = setUp();
    assert.equal(origins.room(), 1024);
    for (let i = 0; i < 1024; i++) origins.began('silent');
    assert.equal(roomOf(origins, 'silent'), 0);
  });

  test('a host that takes 10 ms and answers gets the places that keep it busy', () => {
    const { origins } = setUp();
    answerAll(origins, 'slow', 1, 10);
    assert.equal(roomOf(origins, 'slow'), 1200);
  });

  test('no host gets more than its cap, nor more than half of what the others leave', () => {
    const { origins, places } = setUp(500);
    answerAll(origins, 'slow', 1, 10_000);
    assert.equal(roomOf(origins, 'slow'), 500);
    places.free = 100;
    assert.equal(roomOf(origins, 'slow'), 50);
    assert.equal(origins.room(), 50);
    for (let i = 0; i < 50; i++) origins.began('slow');
    places.free = 50;
    assert.equal(roomOf(origins, 'slow'), 0);
    assert.equal(origins.room(), 25);
    places.free = 0;
    assert.equal(origins.room(), 1);
  });

  test('while the thread is behind no host gets more than 256 places, or than what keeps a very slow one busy', () => {
    const { origins, turns } = setUp();
    for (const [name, latency_ms] of [
      ['slow', 2_000],
      ['busy', 20],
      ['quick', 1],
    ] as const)
      answerAll(origins, name, 1, latency_ms);
    const rooms = (): unknown[] => ['slow', 'busy', 'quick'].map((name) => roomOf(origins, name));
    turns.long = true;
    assert.deepEqual([...rooms(), origins.room()], [2048, 256, 256, 256]);
    turns.long = false;
    assert.deepEqual([...rooms(), origins.room()], [2048, 2048, 256, 1024]);
  });

  test('the best latency counts: time that calls spent waiting for us earns no more places', () => {
    const { origins } = setUp();
    answerAll(origins, 'fast', 1, 5);
    answerAll(origins, 'fast', 10, 400);
    assert.equal(roomOf(origins, 'fast'), 600);
  });

  test('a host that became slow gets its places after two windows', () => {
    const { origins, clock } = setUp();
    answerAll(origins, 'host', 1, 1);
    clock.ms += 5_001;
    answerAll(origins, 'host', 1, 10);
    assert.equal(roomOf(origins, 'host'), 256);
    clock.ms += 5_001;
    answerAll(origins, 'host', 1, 10);
    assert.equal(roomOf(origins, 'host'), 1200);
  });
});

describe('parked work', () => {
  for (const [cap, duration_ms, places, free] of [
    [2048, 5, 600, 150],
    [2048, 1, 256, 128],
    [200, 1, 200, 72],
    [100, 1, 100, 25],
  ] as const)
    test(`of ${places} places ${free} have to be free before work that waits for them is rung for`, () => {
      const { origins } = setUp(cap);
      answerAll(origins, 'host', 1, duration_ms);
      for (let i = 0; i < places; i++) origins.began('host');
      origins.parked('host', 3);
      for (let i = 1; i < free; i++) origins.ended('host', 'timeout', 1);
      assert.equal(origins.hasUnparkable(3), false);
      origins.ended('host', 'timeout', 1);
      assert.equal(origins.hasUnparkable(3), true);
    });

  test('is rung for when a quarter is free where that took a while, as of a host with many calls that take long', () => {
    const { origins, clock } = setUp();
    answerAll(origins, 'host', 1, 1);
    for (let i = 0; i < 256; i++) origins.began('host');
    origins.parked('host', 3);
    for (let i = 0; i < 64; i++) origins.ended('host', null, 1);
    clock.ms += 24;
    assert.equal(origins.hasUnparkable(3), false);
    clock.ms += 1;
    assert.equal(origins.hasUnparkable(3), true);
  });

  test('is rung for in each partition once', () => {
    const { origins } = setUp();
    answerAll(origins, 'host', 1, 1);
    for (let i = 0; i < 256; i++) origins.began('host');
    origins.parked('host', 3);
    origins.parked('host', 5);
    for (let i = 0; i < 127; i++) origins.ended('host', 'timeout', 1);
    assert.equal(origins.hasUnparkable(3), false);
    origins.ended('host', 'timeout', 1);
    assert.equal(origins.hasUnparkable(3), true);
    assert.deepEqual(origins.unparkable(3), ['host']);
    assert.deepEqual(origins.unparkable(3), []);
    assert.equal(origins.hasUnparkable(5), true);
    assert.equal(origins.hasUnparkable(4), false);
  });

  test('goes by turns where partitions wait for it: whose turn it is not has none', () => {
    const { origins } = setUp();
    answerAll(origins, 'host', 1, 10);
    assert.deepEqual(origins.rooms([]), [['host', 1200]], 'nobody waits');
    for (const partition of [3, 5]) origins.parked('host', partition);
    assert.deepEqual(origins.rooms([]), [['host', 8]], 'others wait: a few, of what is not parked');
    assert.deepEqual(origins.rooms(origins.unparkable(3)), [['host', 256]], 'a turn, while another waits');
    assert.deepEqual(origins.rooms(origins.unparkable(5)), [['host', 1200]], 'a turn, and nobody waits');
  });

  test('is rung for after a second where any place is free, as of a host that hangs and met a thread that was behind', () => {
    const { origins, turns, clock } = setUp();
    turns.long = true;
    assert.equal(origins.room(), 256, 'a claim that comes before anything is known of the host');
    origins.parked('silent', 3);
    origins.parked('silent', 5);
    for (let i = 0; i < 900; i++) origins.began('silent');
    turns.long = false;
    clock.ms += 999;
    assert.equal(origins.hasUnparkable(3), false, 'less than a quarter is free');
    clock.ms += 1;
    assert.deepEqual(origins.unparkable(3), ['silent']);
    assert.equal(origins.hasUnparkable(5), false, 'one a second');
    assert.deepEqual(origins.rooms(['silent']), [['silent', 124]]);
    for (let i = 0; i < 124; i++) origins.began('silent');
    clock.ms += 1_000;
    assert.equal(origins.hasUnparkable(5), false, 'none is free');
    origins.ended('silent', 'timeout', 1);
    assert.deepEqual(origins.unparkable(5), ['silent']);
  });

  test('leaves the few places beside the turns to a task that comes by itself', () => {
    const { origins } = setUp();
    assert.equal(origins.hasRoom('host'), true, 'unknown');
    origins.parked('host', 3);
    assert.equal(origins.hasRoom('host'), false, 'it never answered');
    answerAll(origins, 'host', 1, 1);
    assert.equal(origins.hasRoom('host'), true);
    for (let i = 0; i < 511; i++) origins.began('host');
    assert.equal(origins.hasRoom('host'), true);
    origins.began('host');
    assert.equal(origins.hasRoom('host'), false);
  });

  test('does not hold up a few that come later: they have places beyond the limit, up to twice as many, and none beyond the cap', () => {
    for (const [cap, most] of [
      [2048, 512],
      [260, 260],
    ] as const) {
      const { origins } = setUp(cap);
      answerAll(origins, 'host', 1, 1);
      for (let i = 0; i < 256; i++) origins.began('host');
      for (const partition of [3, 5]) origins.parked('host', partition);
      let in_flight = 256;
      for (let room = roomOf(origins, 'host'); room !== 0; room = roomOf(origins, 'host')) {
        assert.equal(room, Math.min(8, most - in_flight));
        origins.began('host');
        in_flight += 1;
      }
      assert.equal(in_flight, most);
    }
  });
});

describe('the breaker', () => {
  function breakIt(origins: Origins): void {
    for (let i = 0; i < BREAKER_FAILURES; i++) {
      origins.began('down');
      origins.ended('down', 'connect', 1);
    }
  }

  test('opens after so many connect failures in a row, not one sooner', () => {
    const { origins } = setUp();
    for (let i = 1; i < BREAKER_FAILURES; i++) {
      origins.began('down');
      origins.ended('down', 'dns', 1);
    }
    assert.equal(origins.broken, 0);
    origins.began('down');
    origins.ended('down', 'tls', 1);
    assert.equal(origins.broken, 1);
    origins.parked('fine', 0);
    assert.deepEqual(origins.whole(['down', 'fine', 'unheard of', '*']), ['fine'], 'another thread would find no answer either');
    assert.equal(roomOf(origins, 'down'), 0);
  });

  test('an answer of any kind in between starts the count anew', () => {
    const { origins } = setUp();
    for (let i = 0; i < 3 * BREAKER_FAILURES; i++) {
      origins.began('flaky');
      origins.ended('flaky', i % BREAKER_FAILURES === 5 ? 'http_status' : 'connect', 1);
    }
    assert.equal(origins.broken, 0);
  });

  test('lets one probe go every so often, and closes when it is answered', () => {
    const { origins, clock } = setUp();
    breakIt(origins);
    origins.parked('down', 1);
    assert.equal(origins.nextProbeMs(1), clock.ms + BREAKER_PROBE_MS);
    assert.equal(origins.hasUnparkable(1), false);
    clock.ms += BREAKER_PROBE_MS;
    assert.deepEqual(origins.unparkable(1), ['down']);
    assert.equal(roomOf(origins, 'down'), 1);
    origins.began('down');
    assert.equal(roomOf(origins, 'down'), 0);
    origins.parked('down', 1);
    origins.ended('down', 'connect', 1);
    assert.equal(origins.broken, 1);
    assert.equal(origins.hasUnparkable(1), false);
    clock.ms += BREAKER_PROBE_MS;
    origins.began('down');
    origins.ended('down', 'http_status', 1);
    assert.equal(origins.broken, 0);
    assert.deepEqual(origins.unparkable(1), ['down']);
  });

  test('a shutdown says nothing about a host', () => {
    const { origins } = setUp();
    breakIt(origins);
    origins.began('down');
    origins.ended('down', 'shutdown', 1);
    assert.equal(origins.broken, 1);
  });

  for (const end of ['shutdown', 'stale', 'cancelled', 'target_blocked'] as const) {
    test(`a probe that was none, ended by ${end}, leaves its turn to the next`, () => {
      const { origins, clock } = setUp();
      breakIt(origins);
      clock.ms += BREAKER_PROBE_MS;
      origins.began('down');
      origins.parked('down', 1);
      assert.equal(roomOf(origins, 'down'), 0);
      origins.ended('down', end, 0);
      assert.equal(origins.broken, 1);
      assert.equal(origins.nextProbeMs(1), clock.ms + PROBE_WAIT_MS);
      assert.deepEqual(origins.unparkable(1), ['down']);
      assert.equal(roomOf(origins, 'down'), 1);
    });
  }
});
