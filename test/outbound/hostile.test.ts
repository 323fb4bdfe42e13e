import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { callTo, outboundFor, outcomeOf, rawReceiver } from './receiver.ts';

const CHUNK = Buffer.alloc(64 * 1024, 'a');

/** Writes for ever, as fast as the other side takes it. Tells how much was written. */
function pour(socket: Socket, head: string, piece: Buffer | string): { bytes: number } {
  const written = { bytes: 0 };
  const more = (): void => {
    while (!socket.destroyed) {
      written.bytes += piece.length;
      if (!socket.write(piece)) break;
    }
  };
  socket.on('drain', more);
  socket.write(head);
  more();
  return written;
}

/** Writes a piece at a time until the other side has had enough. */
function drip(socket: Socket, head: string, piece: string): void {
  socket.write(head);
  const timer = setInterval(() => socket.write(piece), 20);
  socket.on('close', () => clearInterval(timer));
}

test('a body of 10 GB is cut: success for a 2xx, a plain failure otherwise', async (t) => {
  const outbound = outboundFor(t);
  for (const [status, verdict] of [
    [200, 'success'],
    [500, 'retry'],
  ] as const) {
    for (const framing of ['content-length: 10000000000\r\n', '', 'transfer-encoding: chunked\r\n']) {
      const piece = framing.startsWith('transfer') ? Buffer.concat([Buffer.from('10000\r\n'), CHUNK, Buffer.from('\r\n')]) : CHUNK;
      let poured = { bytes: 0 };
      const origin = await rawReceiver(t, (socket) => {
        poured = pour(socket, `HTTP/1.1 ${status} x\r\n${framing}\r\n`, piece);
      });
      const outcome = await outcomeOf(outbound, callTo(origin));
      assert.deepEqual([outcome.verdict, outcome.status_code, outcome.excerpt], [verdict, status, 'a'.repeat(1024)]);
      assert.ok(poured.bytes < 64 * 1024 * 1024);
    }
  }
});

test('a body that drips for ever ends at the deadline: success for a 2xx, its status otherwise', async (t) => {
  const outbound = outboundFor(t);
  for (const [status, verdict] of [
    [200, 'success'],
    [503, 'retry'],
    [410, 'final'],
  ] as const) {
    const origin = await rawReceiver(t, (socket) => drip(socket, `HTTP/1.1 ${status} x\r\ncontent-length: 60000\r\n\r\n`, 'x'));
    const outcome = await outcomeOf(outbound, callTo(origin, { timeout_ms: 200 }));
    assert.deepEqual([outcome.verdict, outcome.status_code], [verdict, status]);
    assert.match(outcome.excerpt ?? '', /^x+$/);
    assert.ok(outcome.duration_ms >= 200 && outcome.duration_ms < 500, `${outcome.duration_ms} ms`);
  }
});

test('headers that drip for ever end at the deadline', async (t) => {
  const outbound = outboundFor(t);
  for (const head of ['HTTP/1.1 200 OK\r\n', 'HTTP/1.1 2', '']) {
    const origin = await rawReceiver(t, (socket) => drip(socket, head, head.endsWith('\n') ? 'a: b\r\n' : ''));
    const outcome = await outcomeOf(outbound, callTo(origin, { timeout_ms: 200 }));
    assert.deepEqual([outcome.verdict, outcome.status_code, outcome.error?.code], ['retry', null, 'timeout']);
    assert.ok(outcome.duration_ms >= 200 && outcome.duration_ms < 500, `${outcome.duration_ms} ms`);
  }
});

test('garbage instead of an answer is a protocol failure', async (t) => {
  const outbound = outboundFor(t);
  const answers = [
    'SSH-2.0-OpenSSH_9.2\r\n',
    '\x00\x01\x02\x03\r\n\r\n',
    'HTTP/9.9 200 OK\r\n\r\n',
    'HTTP/1.1 abc OK\r\n\r\n',
    'HTTP/1.1 000 x\r\n\r\n',
    'HTTP/1.1 200 OK\r\nbad header\r\n\r\n',
    'HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n',
    'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nx',
    'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n',
  ];
  for (const answer of answers) {
    const origin = await rawReceiver(t, (socket) => socket.write(Buffer.from(answer, 'latin1')));
    const outcome = await outcomeOf(outbound, callTo(origin, { timeout_ms: 2_000 }));
    assert.deepEqual([outcome.verdict, outcome.error?.code], ['retry', 'protocol'], JSON.stringify(answer));
  }
});

test('headers without end are cut off', async (t) => {
  const outbound = outboundFor(t);
  for (const piece of [`x: ${'a'.repeat(60_000)}\r\n`, 'x: y\r\n'.repeat(1_000), 'z'.repeat(10_000)]) {
    const origin = await rawReceiver(t, (socket) => {
      pour(socket, 'HTTP/1.1 200 OK\r\n', piece);
    });
    const outcome = await outcomeOf(outbound, callTo(origin));
    assert.deepEqual([outcome.verdict, outcome.error?.code], ['retry', 'protocol']);
  }
});

test('a flood of informational answers is cut off, a few are passed over', async (t) => {
  const outbound = outboundFor(t);
  const flood = await rawReceiver(t, (socket) => {
    pour(socket, '', 'HTTP/1.1 102 Processing\r\n\r\n'.repeat(1_000));
  });
  const flooded = await outcomeOf(outbound, callTo(flood));
  assert.deepEqual([flooded.verdict, flooded.error?.code], ['retry', 'protocol']);
  const few = await rawReceiver(t, (socket) =>
    socket.write(`${'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'.repeat(3)}HTTP/1.1 204 No Content\r\n\r\n`),
  );
  assert.equal((await outcomeOf(outbound, callTo(few))).verdict, 'success');
});

test('100 Continue, which nobody asked for, is passed over, however it comes, and the connection stays', async (t) => {
  const outbound = outboundFor(t);
  const answer = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok';
  const interim = 'HTTP/1.1 100 Continue\r\n\r\n';
  // A body that looks like one stays as it is.
  const alike = `HTTP/1.1 200 OK\r\ncontent-length: ${interim.length}\r\n\r\n`;
  const cases: [pieces: string[], excerpt: string][] = [
    [[interim + answer], 'ok'],
    [[interim, answer], 'ok'],
    [[interim, interim + answer], 'ok'],
    [['HTTP/1.1 100 Continue\r\nx: ', `y\r\n\r\n${answer.slice(0, 20)}`, answer.slice(20)], 'ok'],
    [['HTTP/1.1 100 Continue\r\n\r', '\n', 'HTTP/1.1 103 Early Hints\r\n\r\n', answer], 'ok'],
    [[alike, interim], interim],
  ];
  let connections = 0;
  let turn = 0;
  const origin = await rawReceiver(t, (socket) => {
    connections += 1;
    socket.setNoDelay(true);
    const serve = (): void => {
      const [first = '', ...others] = cases[turn++]?.[0] ?? [];
      // Each in a packet of its own: the next is written a moment after this one has left.
      const write = (piece: string, left: readonly string[]): void => {
        socket.write(piece, () => setTimeout(() => left[0] !== undefined && write(left[0], left.slice(1)), 20));
      };
      write(first, others);
    };
    serve();
    socket.on('data', serve);
  });
  for (const [pieces, excerpt] of cases) {
    const outcome = await outcomeOf(outbound, callTo(origin));
    assert.deepEqual([outcome.verdict, outcome.status_code, outcome.excerpt], ['success', 200, excerpt], JSON.stringify(pieces));
  }
  assert.equal(connections, 1);
});

test('a connection lost after the status leaves the status standing', async (t) => {
  const outbound = outboundFor(t);
  for (const [status, verdict] of [
    [200, 'success'],
    [500, 'retry'],
  ] as const) {
    for (const lose of [
      (socket: Socket) => socket.resetAndDestroy(),
      (socket: Socket) => socket.end(),
      (socket: Socket) => socket.write('zz\r\n'),
    ]) {
      const origin = await rawReceiver(t, (socket) => {
        // A turn of the loop later: the other side, in this process, has read the status by then.
        socket.write(`HTTP/1.1 ${status} x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n`, () =>
          setImmediate(() => setImmediate(lose, socket)),
        );
      });
      const outcome = await outcomeOf(outbound, callTo(origin));
      assert.deepEqual([outcome.verdict, outcome.status_code, outcome.excerpt], [verdict, status, 'abc']);
    }
  }
});

test('a gzip bomb is never unpacked', async (t) => {
  const bomb = gzipSync(Buffer.alloc(50_000_000));
  const origin = await rawReceiver(t, (socket) => {
    socket.write(`HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: ${bomb.length}\r\n\r\n`);
    socket.write(bomb);
  });
  const before = process.memoryUsage.rss();
  const outcome = await outcomeOf(outboundFor(t), callTo(origin));
  assert.deepEqual([outcome.verdict, outcome.excerpt], ['success', null]);
  assert.ok(process.memoryUsage.rss() - before < 40_000_000);
});

test('an answer before the request, and a second answer, harm nobody', async (t) => {
  const outbound = outboundFor(t);
  const origin = await rawReceiver(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nHTTP/1.1 500 x\r\ncontent-length: 0\r\n\r\n');
  });
  const verdicts: string[] = [];
  for (let i = 0; i < 3; i++) verdicts.push((await outcomeOf(outbound, callTo(origin))).verdict);
  assert.deepEqual(verdicts, ['success', 'success', 'success']);
});

test('200 endless receivers at once cost little memory and all end in time', async (t) => {
  const outbound = outboundFor(t, { connections_per_origin_max: 200, connections_max: 200 });
  const origin = await rawReceiver(t, (socket) => drip(socket, 'HTTP/1.1 200 OK\r\n\r\n', 'x'.repeat(100)));
  const before = process.memoryUsage().external + process.memoryUsage().arrayBuffers;
  const outcomes = await Promise.all(Array.from({ length: 200 }, () => outcomeOf(outbound, callTo(origin, { timeout_ms: 2_000 }))));
  assert.ok(outcomes.every((o) => o.verdict === 'success' && o.duration_ms < 4_000));
  assert.ok(process.memoryUsage().external + process.memoryUsage().arrayBuffers - before < 50_000_000);
});
