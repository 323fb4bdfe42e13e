// What is written is what was meant, in one piece or several, with TLS and without.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer as createHttpServer, type RequestListener } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { test } from 'node:test';
import symbols from 'undici/lib/core/symbols.js';
import { Client, speedUp } from '../../src/outbound/undici.ts';
import { callTo, listen, outboundFor, outcomeOf, receiver } from './receiver.ts';

const pem = (name: string): string => readFileSync(new URL(`tls/${name}.pem`, import.meta.url), 'utf8');
const cert = pem('cert');

test('bodies of any bytes and length arrive as they are, and headers beside them, with TLS and without', async (t) => {
  const every_byte = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
  const bodies = [1, 200, 16_000, 16_384, 16_385, 300_000].map((length) => Buffer.alloc(length, every_byte));
  const came: unknown[] = [];
  const answer: RequestListener = async (request, response) => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    came.push([request.headers['x-name'], Buffer.concat(parts)]);
    response.end();
  };
  const plain = await listen(t, createHttpServer(answer));
  const secure = await listen(t, createHttpsServer({ key: pem('key'), cert }, answer), 'https');
  const outbound = outboundFor(t, { ca: cert });
  for (const origin of [plain, secure]) {
    for (const body of bodies)
      assert.equal((await outcomeOf(outbound, callTo(origin, { body, headers: ['x-name', 'Zoë'] }))).verdict, 'success');
    assert.equal((await outcomeOf(outbound, callTo(origin, { method: 'GET', headers: ['x-name', 'Zoë'] }))).verdict, 'success');
    assert.deepEqual(
      came.splice(0),
      [...bodies, Buffer.alloc(0)].map((body) => ['Zoë', body]),
    );
  }
});

test('what undici keeps of an open connection has no field but those that are taken over', async (t) => {
  const client = new Client(await receiver(t, (_request, response) => response.end()));
  t.after(() => client.destroy());
  client[symbols.kConnect](() => {});
  await once(client, 'connect');
  const made = client[symbols.kHTTPContext] as Record<string, unknown>;
  speedUp(client);
  const fast = client[symbols.kHTTPContext] as Record<string, unknown>;
  assert.notEqual(fast, made);
  assert.deepEqual([...Object.keys(fast), 'destroyed'].toSorted(), Object.keys(made).toSorted());
  for (const field of Object.keys(made)) assert.equal(fast[field], made[field], field);
});
