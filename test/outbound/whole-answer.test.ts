// Answers that come in one piece: what is read here is what undici's own parser reads, and nothing else is.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import fc from 'fast-check';
import symbols from 'undici/lib/core/symbols.js';
import type { Parser } from 'undici/lib/dispatcher/client.js';
import { egressPolicy } from '../../src/outbound/addresses.ts';
import { type AnswerHead, readHead } from '../../src/outbound/answer.ts';
import { guardedConnectors } from '../../src/outbound/connector.ts';
import { Reading } from '../../src/outbound/reading.ts';
import { Resolver } from '../../src/outbound/resolver.ts';
import { Slot } from '../../src/outbound/slot.ts';
import { wholeAnswer } from '../../src/outbound/whole-answer.ts';
import { callTo, listen, outboundFor, outcomeOf } from './receiver.ts';

const read = (text: string) => wholeAnswer(Buffer.from(text, 'latin1'));

const ORDINARY = [
  'HTTP/1.1 200 OK\r\nDate: Fri, 27 Nov 2026 08:00:00 GMT\r\nContent-Length: 2\r\n\r\nok',
  'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\nContent-Length: 2\r\n\r\n{}',
  'HTTP/1.1 204 No Content\r\n\r\n',
  'HTTP/1.1 202 \r\ncontent-length:0\r\n\r\n',
  'HTTP/1.1 429 Too Many\r\nRetry-After: 7\r\nX-Sluice-Retry: never\r\nX-Points-Used: 3\r\ncontent-length: 4\r\n\r\n\0\xff\r\n',
  'HTTP/1.1 503 Caf\xe9\r\nX-Very_Odd-1: \xe9 a:b\r\nContent-Encoding: gzip\r\nConnection: Keep-Alive\r\ncontent-length: 1\r\n\r\nx',
];

const OUT_OF_THE_ORDINARY = [
  ['closes', 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok'],
  ['closes, among others', 'HTTP/1.1 200 OK\r\nConnection: keep-alive, close\r\nContent-Length: 2\r\n\r\nok'],
  ['upgrades', 'HTTP/1.1 200 OK\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\nok'],
  ['chunked', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n'],
  ['chunked, with a length', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0'],
  ['two lengths', 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok'],
  ['a length that is none', 'HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nok'],
  ['a negative length', 'HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok'],
  ['a length beyond all numbers', 'HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nok'],
  ['no length', 'HTTP/1.1 200 OK\r\n\r\nok'],
  ['no length, and nothing else', 'HTTP/1.1 200 OK\r\n\r\n'],
  ['less than its length', 'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok'],
  ['more than its length', 'HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nok'],
  ['two answers', 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'],
  ['interim', 'HTTP/1.1 103 Early Hints\r\nContent-Length: 0\r\n\r\n'],
  ['switching', 'HTTP/1.1 101 Switching Protocols\r\nContent-Length: 0\r\n\r\n'],
  ['no content, with some', 'HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok'],
  ['not modified, with a length', 'HTTP/1.1 304 Not Modified\r\nContent-Length: 0\r\n\r\n'],
  ['a status that is none', 'HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n'],
  ['an older version', 'HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok'],
  ['a line that goes on', 'HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 2\r\n\r\nok'],
  ['a space before the colon', 'HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok'],
  ['no name', 'HTTP/1.1 200 OK\r\n: x\r\nContent-Length: 2\r\n\r\nok'],
  ['no colon', 'HTTP/1.1 200 OK\r\nContent-Length\r\n\r\nok'],
  ['lines without a carriage return', 'HTTP/1.1 200 OK\nContent-Length: 2\n\nok'],
  ['a carriage return alone', 'HTTP/1.1 200 OK\r\nX-A: b\rc\r\nContent-Length: 2\r\n\r\nok'],
  ['a control character', 'HTTP/1.1 200 OK\r\nX-A: b\0c\r\nContent-Length: 2\r\n\r\nok'],
  ['half a head', 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n'],
  ['a head without its last byte', 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r'],
  ['nothing', ''],
] as const;

test('answers as most are, and no others, are read', () => {
  for (const text of ORDINARY) assert.notEqual(read(text), null, text);
  for (const [name, text] of OUT_OF_THE_ORDINARY) assert.equal(read(text), null, name);
  // No part of an answer is one, and no head is too long for undici that is not for us.
  for (const text of ORDINARY) for (let to = 0; to < text.length; to++) assert.equal(read(text.slice(0, to)), null, text.slice(0, to));
  assert.equal(read(`HTTP/1.1 200 OK\r\nX-A: ${'a'.repeat(16 * 1024)}\r\nContent-Length: 2\r\n\r\nok`), null);
});

/** What a call knows of an answer. */
interface Told extends AnswerHead {
  status: number;
  body: string;
  /** The connection can carry the next request. */
  kept: boolean;
}

const NO_HEAD: AnswerHead = {
  content_length: -1,
  encoded: false,
  textual: false,
  retry_after: null,
  retry_never: false,
  points_used: null,
};

/** One connection as calls have it. */
interface Wire {
  slot: Slot;
  /** Undici's parser of it. */
  parser(): Parser & { execute(chunk: Buffer): void };
  /** Rejects with what undici says where there is no answer. Not `quick`: it goes through undici's parser, whatever it is. */
  call(quick?: boolean): Promise<Told>;
}

function wireTo(t: TestContext, origin: string): Wire {
  const clock = (): number => 0;
  const policy = egressPolicy({ allow_private: true, allow_cidrs: [], deny_cidrs: [] });
  const connectorFor = guardedConnectors(policy, new Resolver(clock), new Reading(clock), null);
  const slot = new Slot(origin, 0, 0, connectorFor);
  t.after(() => slot.destroy());
  const parser = (): ReturnType<Wire['parser']> => slot.client[symbols.kSocket]?.[symbols.kParser] as ReturnType<Wire['parser']>;
  const call = (quick = true): Promise<Told> =>
    new Promise((resolve, reject) => {
      const told: Told = { ...NO_HEAD, status: 0, body: '', kept: false };
      slot.silent = quick;
      slot.client.dispatch(
        { path: '/', method: 'POST', body: 'x' },
        {
          onConnect: () => {},
          onHeaders: (status, headers) => {
            told.status = status;
            readHead(headers, told);
            return true;
          },
          onData: (chunk) => {
            told.body += chunk.toString('latin1');
            return true;
          },
          onComplete: () =>
            setImmediate(() => {
              told.kept = slot.client[symbols.kSocket]?.destroyed === false;
              resolve(told);
            }),
          onError: reject,
        },
      );
    });
  return { slot, parser, call };
}

/** A wire to a server that writes this to each request, or does so itself. */
async function wire(t: TestContext, answer: string | ((socket: Socket) => void)): Promise<Wire> {
  const write = typeof answer === 'string' ? (socket: Socket) => socket.write(answer, 'latin1') : answer;
  const server = createServer((socket) => socket.on('data', () => write(socket)));
  return wireTo(t, await listen(t, server));
}

/** An answer, and at most one byte of it another, missing or too many. */
const answers = fc
  .record({
    status: fc.constantFrom(200, 201, 204, 205, 302, 304, 404, 410, 429, 503, 599),
    reason: fc.constantFrom('OK', '', 'Not OK', 'Caf\xe9'),
    headers: fc.array(
      fc.constantFrom(
        'Date: Fri, 27 Nov 2026 08:00:00 GMT',
        'Content-Type: text/plain',
        'Connection: keep-alive',
        'Keep-Alive: timeout=5',
        'Retry-After: 10',
        'Retry-After:  11 ',
        'X-Points-Used: 4',
        'X-Sluice-Retry: never',
        'Content-Encoding: gzip',
        'X-Empty:',
        'Trailer: x',
        'Connection: close',
        'Proxy-Connection: close',
        'Keep-Alive: timeout=1',
        'Upgrade: h2c',
        'Transfer-Encoding: chunked',
      ),
      { maxLength: 4 },
    ),
    body: fc.constantFrom('', 'ok', '{"a":"b"}', '\r\n\r\n', '\xff'),
    change: fc.option(fc.record({ at: fc.nat(), to: fc.option(fc.nat(255)), more: fc.boolean() })),
  })
  .map(({ status, reason, headers, body, change }) => {
    const lines = [`HTTP/1.1 ${status} ${reason}`, ...headers, `Content-Length: ${body.length}`];
    const bytes = Buffer.from(`${lines.join('\r\n')}\r\n\r\n${body}`, 'latin1');
    if (change === null) return bytes;
    const at = change.at % bytes.length;
    const between = change.to === null ? Buffer.alloc(0) : Buffer.from([change.to]);
    return Buffer.concat([bytes.subarray(0, at), between, bytes.subarray(at + (change.more ? 0 : 1))]);
  });

test("what is read of an answer is what undici's own parser reads of it", async (t) => {
  let answer: Buffer = Buffer.alloc(0);
  const server = createServer((socket) => socket.on('data', () => socket.write(answer)));
  const origin = await listen(t, server);
  let some = 0;
  const same = async (bytes: Buffer): Promise<void> => {
    if (wholeAnswer(bytes) === null) return;
    some += 1;
    answer = bytes;
    const told = await Promise.all(
      [true, false].map(async (quick) => {
        const { slot, call } = wireTo(t, origin);
        const what = await call(quick).catch(String);
        slot.destroy();
        return what;
      }),
    );
    assert.deepEqual(told[0], told[1], JSON.stringify(bytes.toString('latin1')));
  };
  for (const text of ORDINARY) await same(Buffer.from(text, 'latin1'));
  await fc.assert(fc.asyncProperty(answers, same), { numRuns: 3_000 });
  assert.ok(some > 300, `only ${some} were read`);
});

test('a connection carries call after call, whole answers among others', async (t) => {
  const whole = ORDINARY[0] ?? '';
  const pieces = [...ORDINARY, whole, 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n', whole];
  let at = 0;
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    socket.on('data', () => {
      const text = pieces[at++] ?? '';
      // Every third in two pieces; between them the loop, which is that of both sides, has read the first.
      if (at % 3 !== 0) return void socket.write(text, 'latin1');
      socket.write(text.slice(0, 20), 'latin1');
      setImmediate(() => setImmediate(() => socket.write(text.slice(20), 'latin1')));
    });
  });
  const outbound = outboundFor(t, { connections_per_origin_max: 1 });
  const origin = await listen(t, server);
  const codes: (number | null)[] = [];
  for (const _ of pieces) codes.push((await outcomeOf(outbound, callTo(origin))).status_code);
  assert.deepEqual(codes, [200, 200, 204, 202, 429, 503, 200, 200, 200]);
  assert.equal(connections, 1);
});

test("a whole answer passes undici's parser by", async (t) => {
  const { parser, call } = await wire(t, 'HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok');
  await call();
  let parsed = 0;
  const execute = parser().execute.bind(parser());
  parser().execute = (chunk) => {
    parsed += 1;
    execute(chunk);
  };
  assert.deepEqual([(await call()).status, parsed], [201, 0]);
  assert.deepEqual([(await call(false)).status, parsed], [201, 1]);
});

test('a server that keeps its connection for no longer is not sent another request', async (t) => {
  const { call } = await wire(t, 'HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 0\r\n\r\n');
  assert.equal((await call()).kept, false);
});

test('where undici wants to hear no more of an answer, or throws, its connection is closed', async (t) => {
  const ends: [string, () => number][] = [
    ['other side closed|SocketError|destroyed', () => -1],
    [
      'of the parser',
      () => {
        throw new Error('of the parser');
      },
    ],
  ];
  for (const [said, onBody] of ends) {
    const { slot, parser, call } = await wire(t, 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok');
    await call();
    parser().onBody = onBody;
    const gone = once(slot.client, 'disconnect');
    await assert.rejects(call(), new RegExp(said));
    await gone;
  }
});

test('what comes unasked is no answer', async (t) => {
  let server_side: Socket | null = null;
  const { slot, call } = await wire(t, (socket) => {
    server_side = socket;
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
  });
  assert.equal((await call()).status, 200);
  slot.silent = true;
  const gone = once(slot.client, 'disconnect');
  (server_side as Socket | null)?.write('HTTP/1.1 500 Too Late\r\nContent-Length: 0\r\n\r\n');
  const [, , error] = await gone;
  assert.match(String(error), /bad response/);
});

test('of what undici reads by itself nothing is the beginning of a whole answer', () => {
  let now_ms = 0;
  const reading = new Reading(() => (now_ms += 10));
  const reader = { free: false, broken: false, silent: true, takes: () => true };
  const socket = new Socket();
  reading.of(socket, reader);
  const comes = (to: Socket, text: string): unknown => {
    const { buffer, callback } = reading.onread;
    return Reflect.apply(callback, to, [Buffer.from(text).copy(buffer as Buffer), buffer]);
  };
  // Another connection takes up the slice of this turn, so what comes here waits.
  comes(new Socket(), 'x');
  comes(socket, 'HTTP/1.1 100 Continue\r\n');
  assert.equal(reader.silent, true);
  assert.equal(String(socket.read()), 'HTTP/1.1 100 Continue\r\n');
  assert.equal(reader.silent, false);
});
