// Answers that come in one piece: what is read here is what undici's own parser reads, and nothing else is.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { type TestContext, test } from 'node:test';
import fc from 'fast-check';
import symbols from 'undici/lib/core/symbols.js';
import { egressPolicy } from '../../src/outbound/addresses.ts';
import { type AnswerHead, readHead } from '../../src/outbound/answer.ts';
import { guardedConnectors } from '../../src/outbound/connector.ts';
import { Reading } from '../../src/outbound/reading.ts';
import { Resolver } from '../../src/outbound/resolver.ts';
import { Slot } from '../../src/outbound/slot.ts';
import { Client } from '../../src/outbound/undici.ts';
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

/** What undici makes of these bytes, by its own parser; null where they are no answer to it, or not all of one. */
async function toldByUndici(t: TestContext): Promise<(bytes: Buffer) => Promise<Told | null>> {
  let answer = Buffer.alloc(0);
  // Behind the last byte of an answer that is whole comes nothing; what is none ends with the connection.
  const server = createServer((socket) => socket.once('data', () => socket.end(answer)));
  const origin = await listen(t, server);
  return async (bytes) => {
    answer = Buffer.from(bytes);
    const client = new Client(origin, { pipelining: 1 });
    const told: Told = { ...NO_HEAD, status: 0, body: '', kept: false };
    const outcome = await new Promise<Told | null>((resolve) =>
      client.dispatch(
        { path: '/', method: 'POST', body: 'x' },
        {
          onConnect: () => {},
          onHeaders: (status, headers) => {
            if (status >= 200) readHead(headers, Object.assign(told, { status }));
            return true;
          },
          onData: (chunk) => {
            told.body += chunk.toString('latin1');
            return true;
          },
          onComplete: () => {
            setImmediate(() => resolve(told));
            told.kept = true;
          },
          onError: () => resolve(null),
        },
      ),
    );
    client.destroy();
    return outcome;
  };
}

const NO_HEAD: AnswerHead = {
  content_length: -1,
  encoded: false,
  textual: false,
  retry_after: null,
  retry_never: false,
  points_used: null,
};

function toldByUs(bytes: Buffer): Told | null {
  const answer = wholeAnswer(bytes);
  if (answer === null) return null;
  const told: Told = { ...NO_HEAD, status: answer.status, body: answer.body?.toString('latin1') ?? '', kept: true };
  readHead(answer.headers, told);
  return told;
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
  const told = await toldByUndici(t);
  let some = 0;
  const same = async (bytes: Buffer): Promise<void> => {
    const ours = toldByUs(bytes);
    if (ours === null) return;
    some += 1;
    assert.deepEqual(ours, await told(bytes), JSON.stringify(bytes.toString('latin1')));
  };
  for (const text of ORDINARY) await same(Buffer.from(text, 'latin1'));
  await fc.assert(fc.asyncProperty(answers, same), { numRuns: 3_000 });
  assert.ok(some > 300, `only ${some} were read`);
});

test('a connection carries call after call, whole answers among others', async (t) => {
  const pieces = [
    ...ORDINARY,
    ORDINARY[0] ?? '',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
    ORDINARY[1] ?? '',
  ];
  let at = 0;
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    socket.on('data', () => {
      const text = pieces[at++] ?? '';
      // Every third in two pieces, which are written far enough apart to be read one by one.
      if (at % 3 !== 0) return void socket.write(text, 'latin1');
      socket.setNoDelay(true);
      socket.write(text.slice(0, 20), 'latin1', () => setTimeout(() => socket.write(text.slice(20), 'latin1'), 5));
    });
  });
  const outbound = outboundFor(t, { connections_per_origin_max: 1 });
  const origin = await listen(t, server);
  const codes: (number | null)[] = [];
  for (const _ of pieces) codes.push((await outcomeOf(outbound, callTo(origin))).status_code);
  assert.deepEqual(codes, [200, 200, 204, 202, 429, 503, 200, 200, 200]);
  assert.equal(connections, 1);
});

/** One connection as a call has it, and what its server writes after each request. */
async function oneSlot(
  t: TestContext,
  answer: (socket: Socket) => void,
): Promise<{ slot: Slot; parsed: () => number; call: () => Promise<number> }> {
  const clock = (): number => 0;
  const policy = egressPolicy({ allow_private: true, allow_cidrs: [], deny_cidrs: [] });
  const connectorFor = guardedConnectors(policy, new Resolver(clock), new Reading(clock), null);
  const slot = new Slot(
    await listen(
      t,
      createServer((socket) => socket.on('data', () => answer(socket))),
    ),
    0,
    0,
    connectorFor,
  );
  t.after(() => slot.destroy());
  let parsed = 0;
  slot.client.on('connect', () => {
    const parser = slot.client[symbols.kSocket]?.[symbols.kParser] as unknown as { execute(chunk: Buffer): void };
    const execute = parser.execute.bind(parser);
    parser.execute = (chunk) => {
      parsed += 1;
      execute(chunk);
    };
  });
  const call = (): Promise<number> =>
    new Promise((resolve, reject) => {
      let code = 0;
      slot.silent = true;
      const onHeaders = (status: number): boolean => {
        code = status;
        return true;
      };
      const handler = { onConnect: () => {}, onHeaders, onData: () => true, onComplete: () => resolve(code), onError: reject };
      slot.client.dispatch({ path: '/', method: 'POST', body: 'x' }, handler);
    });
  return { slot, parsed: () => parsed, call };
}

test("a whole answer passes undici's parser by, and a throwing handler ends its connection", async (t) => {
  const { slot, parsed, call } = await oneSlot(t, (socket) => socket.write('HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok'));
  assert.deepEqual([await call(), await call(), parsed()], [201, 201, 0]);
  slot.silent = true;
  const gone = once(slot.client, 'disconnect');
  const onHeaders = (): never => {
    throw new Error('of the handler');
  };
  const failed = new Promise((resolve) => {
    const handler = { onConnect: () => {}, onHeaders, onData: () => true, onComplete: () => resolve(null), onError: resolve };
    slot.client.dispatch({ path: '/', method: 'POST', body: 'x' }, handler);
  });
  assert.match(String(await failed), /of the handler/);
  await gone;
});

test('what comes unasked is no answer to the next request', async (t) => {
  const { slot, call } = await oneSlot(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
    setImmediate(() => socket.write('HTTP/1.1 500 Too Late\r\nContent-Length: 0\r\n\r\n'));
  });
  const gone = once(slot.client, 'disconnect');
  assert.equal(await call(), 200);
  slot.silent = true;
  await gone;
});
