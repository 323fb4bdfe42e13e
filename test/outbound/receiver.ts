// Receivers for the tests of this room: real servers on a free port of 127.0.0.1, and a call that waits for its outcome.
import { createServer as createHttpServer, type RequestListener, type ServerResponse } from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
import type { TestContext } from 'node:test';
import type { OutboundCall, Outcome } from '../../src/outbound/call.ts';
import { Outbound, type OutboundOptions } from '../../src/outbound/outbound.ts';

/** Listens, and is closed with all its connections when the test ends. Its origin. */
export async function listen(t: TestContext, server: Server, protocol: 'http' | 'https' = 'http'): Promise<string> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return `${protocol}://127.0.0.1:${address.port}`;
}

/** An HTTP receiver that answers as it is told. */
export function receiver(t: TestContext, answer: RequestListener): Promise<string> {
  return listen(t, createHttpServer(answer));
}

/** A receiver of bytes: `answer` is called with each connection once the first bytes of a request are there. */
export function rawReceiver(t: TestContext, answer: (socket: Socket) => void): Promise<string> {
  return listen(
    t,
    createServer((socket) => socket.once('data', () => answer(socket))),
  );
}

/** A receiver that counts its connections and holds every request until `release`. */
export async function holding(
  t: TestContext,
): Promise<{ origin: string; held: ServerResponse[]; connections: () => number; arrived: (n: number) => Promise<void> }> {
  let connections = 0;
  const held: ServerResponse[] = [];
  let check = (): void => {};
  const server = createHttpServer((_request, response) => {
    held.push(response);
    check();
  });
  server.on('connection', (socket: Socket) => {
    connections++;
    socket.on('close', () => connections--);
  });
  const arrived = (n: number): Promise<void> =>
    new Promise((resolve) => {
      check = () => held.length >= n && resolve();
      check();
    });
  return { origin: await listen(t, server), held, connections: () => connections, arrived };
}

/** Closed when the test ends. Allows private addresses unless told otherwise. */
export function outboundFor(t: TestContext, options: Partial<OutboundOptions> = {}): Outbound {
  const outbound = new Outbound({
    version: '1.2.3',
    allow_private: true,
    allow_cidrs: [],
    deny_cidrs: [],
    connections_per_origin_max: 16,
    connections_max: 64,
    ...options,
  });
  t.after(() => outbound.close());
  return outbound;
}

const SECRET = Buffer.alloc(32, 7);

export function callTo(target: string, over: Partial<OutboundCall> = {}): OutboundCall {
  const url = new URL(target);
  return {
    origin: url.origin,
    path: url.pathname + url.search,
    method: 'POST',
    headers: [],
    body: Buffer.from('{"n":1}'),
    account_id: 'acme',
    webhook_id: 'task_1',
    attempt: 1,
    batch_id: null,
    timeout_ms: 5_000,
    secrets: [SECRET],
    ...over,
  };
}

export function outcomeOf(outbound: Outbound, call: OutboundCall): Promise<Outcome> {
  return new Promise((resolve) => outbound.call(call, resolve));
}
