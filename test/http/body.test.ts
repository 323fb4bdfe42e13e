import assert from 'node:assert/strict';
import { once } from 'node:events';
import http from 'node:http';
import { describe, it } from 'node:test';
import type { Call } from '../../src/api/call.ts';
import { Authenticator } from '../../src/http/auth.ts';
import { newTokenText } from '../../src/store/tokens.ts';
import { ADMIN, gate, head, openDoor } from './door.ts';

const JSON_TYPE = { 'content-type': 'application/json' };
const length = ({ raw_body }: Call) => ({ body: { length: raw_body?.length ?? null } });

/** A JSON body of this many bytes. */
function sized(bytes: number): string {
  return `{"tasks":["${'x'.repeat(bytes - 14)}"]}`;
}

function post(port: number, headers: Record<string, string | number>): http.ClientRequest {
  const all = { ...JSON_TYPE, authorization: `Bearer ${ADMIN}`, ...headers };
  return http.request({ port, host: '127.0.0.1', method: 'POST', path: '/v1/batches', headers: all, agent: false });
}

describe('a request body', () => {
  it('arrives whole, whatever its size and however it is cut', async () => {
    const door = await openDoor({ api: { createBatch: length }, max_body_bytes: 4_000_000 });
    for (const bytes of [20, 1_000, 65_536, 65_537, 300_000, 4_000_000]) {
      const body = sized(bytes);
      assert.deepEqual((await door.ask('POST', '/v1/batches', { body, headers: JSON_TYPE })).json, { length: bytes });
      assert.equal(door.calls.at(-1)?.call.raw_body?.toString(), body);
      const chunked = post(door.port, {});
      for (let at = 0; at < bytes; at += 50_000) chunked.write(body.slice(at, at + 50_000));
      chunked.end();
      const [response] = (await once(chunked, 'response')) as [http.IncomingMessage];
      response.resume();
      assert.equal(response.statusCode, 201);
      assert.equal(door.calls.at(-1)?.call.raw_body?.toString(), body);
    }
    const slow = await door.dial();
    slow.socket.write(head('POST /v1/batches', { ...JSON_TYPE, 'content-length': 20 }));
    for (const byte of sized(20)) {
      slow.socket.write(byte);
      await new Promise(setImmediate);
    }
    await slow.until(/\{"length":20\}$/);
  });

  it('of more than the limit is refused before it is sent', async () => {
    const door = await openDoor({ max_body_bytes: 1_000_000 });
    const connection = await door.dial();
    connection.socket.write(head('POST /v1/batches', { ...JSON_TYPE, 'content-length': 1_000_001 }));
    const text = await connection.until(/"payload_too_large"/);
    assert.match(text, /^HTTP\/1.1 413 .*\r\nConnection: close\r\n/is);
    assert.equal(door.calls.length, 0);
    // The answer is read even where the client sends on regardless.
    const request = post(door.port, { 'content-length': 8_000_000 });
    request.end(sized(8_000_000));
    const [response] = (await once(request, 'response')) as [http.IncomingMessage];
    response.resume();
    assert.equal(response.statusCode, 413);
    request.on('error', () => {}); // What is left of it meets the end of the server.
  });

  it('without a length is refused as soon as it is over the limit', async () => {
    const door = await openDoor({ max_body_bytes: 1_000 });
    const connection = await door.dial();
    connection.socket.write(head('POST /v1/batches', { ...JSON_TYPE, 'transfer-encoding': 'chunked' }));
    connection.socket.write(`400\r\n${'x'.repeat(1024)}\r\n`);
    assert.match(await connection.until(/"payload_too_large"/), /^HTTP\/1.1 413 /);
  });

  it('is asked for where the client waits to be asked', { timeout: 5_000 }, async () => {
    const door = await openDoor({ api: { createBatch: length } });
    const request = post(door.port, { expect: '100-continue', 'content-length': 20 });
    request.flushHeaders();
    await once(request, 'continue');
    request.end(sized(20));
    const [response] = (await once(request, 'response')) as [http.IncomingMessage];
    response.resume();
    assert.equal(response.statusCode, 201);
  });

  it('that is too large is refused where the client waits to be asked', { timeout: 5_000 }, async () => {
    const door = await openDoor({ max_body_bytes: 1_000 });
    const request = post(door.port, { expect: '100-continue', 'content-length': 2_000 });
    request.flushHeaders();
    const [response] = (await once(request, 'response')) as [http.IncomingMessage];
    response.resume();
    assert.equal(response.statusCode, 413);
    request.destroy();
  });

  it('that breaks off reaches nobody', async () => {
    const door = await openDoor();
    const connection = await door.dial();
    connection.socket.write(`${head('POST /v1/batches', { ...JSON_TYPE, 'content-length': 1_000 })}{"tasks":`);
    connection.socket.destroy();
    while (door.records.length === 0) await new Promise(setImmediate);
    assert.deepEqual(
      door.records.map(({ route, status }) => [route, status]),
      [['createBatch', 499]],
    );
    assert.equal(door.calls.length, 0);
  });

  it('finds no room while others fill the memory, and room again when they are answered', async () => {
    const door = await openDoor({ max_body_bytes: 100_000, bodies_bytes_max: 150_000 });
    const holder = await door.dial();
    holder.socket.write(head('POST /v1/batches', { ...JSON_TYPE, 'content-length': 100_000 }) + sized(100_000).slice(0, 99_999));
    const send = () => door.ask('POST', '/v1/batches', { body: sized(90_000), headers: JSON_TYPE });
    for (;;) {
      const refusal = await send();
      if (refusal.status === 503) {
        assert.equal(refusal.headers['retry-after'], '1');
        break;
      }
    }
    holder.socket.write('}');
    await holder.until(/201 Created/);
    assert.equal((await send()).status, 201);
  });

  it('of somebody whose token is not known yet waits outside', async () => {
    const looked_up = gate();
    const token = newTokenText();
    const record = { id: 'tok', account: 'acme', scope: 'admin' as const, created_at_ms: 0, expires_at_ms: null, revoked_at_ms: null };
    const auth = new Authenticator({ lookup: () => looked_up.opened.then(() => record), clock: Date.now });
    const door = await openDoor({ auth, api: { createBatch: length } });
    const sending = door.ask('POST', '/v1/batches', { token, body: sized(3_000_000), headers: JSON_TYPE });
    const other = await door.ask('GET', '/healthz');
    assert.equal(other.status, 200);
    looked_up.open();
    assert.deepEqual((await sending).json, { length: 3_000_000 });
  });

  it('of a client that goes away while its endpoint works harms nothing', async () => {
    const working = gate();
    const started = gate();
    const door = await openDoor({
      api: {
        createBatch: async () => {
          started.open();
          await working.opened;
          return { body: {} };
        },
      },
    });
    const connection = await door.dial();
    connection.socket.write(head('POST /v1/batches', { ...JSON_TYPE, 'content-length': 20 }) + sized(20));
    await started.opened;
    connection.socket.destroy();
    while (door.records.length === 0) await new Promise(setImmediate);
    working.open();
    assert.equal((await door.ask('GET', '/healthz')).status, 200);
    assert.deepEqual(
      door.records.map(({ status }) => status),
      [499, 200],
    );
  });

  it('that nobody reads is swallowed, and the connection goes on', async () => {
    const door = await openDoor();
    const connection = await door.dial();
    connection.socket.write(`${head('GET /healthz', { 'content-length': 5 })}hello${head('GET /readyz')}`);
    await connection.until(/"redis":"ok"/);
    connection.socket.write(`${head('POST /v1/nothing', { 'content-length': 5 })}hello${head('GET /healthz')}`);
    assert.match(await connection.until(/"not_found"[\s\S]*"status":"ok"\}$/), /404 Not Found/);
  });
});
