// What a callback costs: this room beside a bare undici `Pool.dispatch` loop, in one run, against one receiver process.
//
//   node --import tsx bench/outbound.ts [seconds per case] [rounds]
//
// 128 connections, POST with 200 bytes. The cases are interleaved, medians are shown; absolute figures move with the
// machine, the ratio to the bare loop is the figure that counts.
import { fork } from 'node:child_process';
import { createHmac, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { Client, type Dispatcher, Pool } from 'undici';
import { addressVerdict, egressPolicy, parseAddress } from '../src/outbound/addresses.ts';
import type { OutboundCall } from '../src/outbound/call.ts';
import { Outbound } from '../src/outbound/outbound.ts';
import { Signer } from '../src/outbound/signer.ts';

const CONNECTIONS = 128;
const BODY = Buffer.from(JSON.stringify({ event: 'bench', padding: 'x'.repeat(160) }).padEnd(200));
const ANSWER = Buffer.from('HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{"ok":true}');
const HEADERS = ['user-agent', 'Sluice/0.0.0', 'content-type', 'application/json'];
const SIX_HEADERS = [
  ...HEADERS,
  'webhook-id',
  'task_000000000000000000_12',
  'webhook-timestamp',
  '1763661234',
  'webhook-signature',
  `v1,${'A'.repeat(44)}`,
  'x-sluice-attempt',
  '1',
  'x-sluice-batch-id',
  'batch_000000000000000000',
];

/** Runs `start` on every connection again and again, and counts how often it came back. */
type Loop = (start_next: () => void) => void;

/** Keeps `CONNECTIONS` requests in flight for `ms`; requests and CPU µs a second. */
async function measure(ms: number, request: Loop): Promise<{ per_s: number; cpu_us: number }> {
  let count = 0;
  let running = true;
  let in_flight = CONNECTIONS;
  const idle = deferred();
  const next = (): void => {
    count++;
    if (running) request(next);
    else if (--in_flight === 0) idle.resolve();
  };
  const begun = performance.now();
  const cpu = process.cpuUsage();
  for (let i = 0; i < CONNECTIONS; i++) request(next);
  setTimeout(() => {
    running = false;
  }, ms);
  await idle.promise;
  const spent = process.cpuUsage(cpu);
  return { per_s: (count / (performance.now() - begun)) * 1000, cpu_us: (spent.user + spent.system) / count };
}

function deferred(): { promise: Promise<void>; resolve: () => void } {
  let resolve = (): void => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

class BareHandler implements Dispatcher.DispatchHandler {
  readonly next: () => void;
  constructor(next: () => void) {
    this.next = next;
  }
  onConnect(): void {}
  onHeaders(): boolean {
    return true;
  }
  onData(): boolean {
    return true;
  }
  onComplete(): void {
    this.next();
  }
  onError(error: Error): void {
    throw error;
  }
}

async function main(): Promise<void> {
  const case_ms = Number(process.argv[2] ?? 3) * 1000;
  const rounds = Number(process.argv[3] ?? 3);
  const receiver = fork(fileURLToPath(import.meta.url), ['receiver'], { stdio: 'inherit' });
  const [port] = (await once(receiver, 'message')) as [number];
  const origin = `http://127.0.0.1:${port}`;
  const secret = randomBytes(32);
  const base = { version: '0.0.0', connections_per_origin_max: CONNECTIONS, connections_max: 4096 };
  const guarded = new Outbound({ ...base, allow_private: false, allow_cidrs: ['127.0.0.0/8'], deny_cidrs: [] });
  const open = new Outbound({ ...base, allow_private: true, allow_cidrs: [], deny_cidrs: [] });
  const pool = new Pool(origin, { connections: CONNECTIONS, pipelining: 1 });
  const clients = Array.from({ length: CONNECTIONS }, () => new Client(origin, { pipelining: 1, headersTimeout: 0, bodyTimeout: 0 }));

  let n = 0;
  const call = (secrets: readonly Buffer[]): OutboundCall => ({
    origin,
    path: '/hook',
    method: 'POST',
    headers: [],
    body: BODY,
    account_id: 'acme',
    webhook_id: `task_000000000000000000_${n++ % 10_000}`,
    attempt: 1,
    batch_id: 'batch_000000000000000000',
    timeout_ms: 30_000,
    secrets,
  });
  const through = (outbound: Outbound, secrets: readonly Buffer[]): Loop => {
    return (next) =>
      outbound.call(call(secrets), (outcome) => {
        if (outcome.verdict !== 'success') throw new Error(JSON.stringify(outcome));
        next();
      });
  };
  const bare = (dispatcher: Dispatcher, headers: string[]): Loop => {
    return (next) => dispatcher.dispatch({ path: '/hook', method: 'POST', body: BODY, headers }, new BareHandler(next));
  };
  const pinned: Loop = (next) => {
    const client = clients.pop() as Client;
    const handler = new BareHandler(() => {
      clients.push(client);
      next();
    });
    client.dispatch({ path: '/hook', method: 'POST', body: BODY, headers: SIX_HEADERS, blocking: false }, handler);
  };

  const cases: [string, Loop][] = [
    ['bare Pool.dispatch, 2 headers', bare(pool, HEADERS)],
    ['bare Pool.dispatch, our 7 headers', bare(pool, SIX_HEADERS)],
    ['bare pinned Client, our 7 headers', pinned],
    ['outbound, unsigned, guard off', through(open, [])],
    ['outbound, signed, guard off', through(open, [secret])],
    ['outbound, signed, guard on', through(guarded, [secret])],
  ];
  const results = cases.map(() => [] as { per_s: number; cpu_us: number }[]);
  for (const [, loop] of cases) await measure(500, loop);
  for (let round = 0; round < rounds; round++) {
    for (const [i, [, loop]] of cases.entries()) results[i]?.push(await measure(case_ms, loop));
  }
  let reference = 0;
  for (const [i, [name]] of cases.entries()) {
    const per_s = median(results[i]?.map((r) => r.per_s) ?? []);
    const cpu_us = median(results[i]?.map((r) => r.cpu_us) ?? []);
    reference ||= per_s;
    print(name, `${(per_s / 1000).toFixed(1)}k/s  ${((per_s / reference) * 100).toFixed(0)} %  ${cpu_us.toFixed(2)} µs CPU each`);
  }
  pieces(secret);
  await Promise.all([guarded.close(), open.close(), pool.destroy(), ...clients.map((client) => client.destroy())]);
  receiver.kill();
}

/** The parts alone, in µs. */
function pieces(secret: Buffer): void {
  const signer = new Signer();
  const id = 'task_000000000000000000_12';
  const policy = egressPolicy({ allow_private: false, allow_cidrs: [], deny_cidrs: [] });
  timed('sign 200 bytes, one key', () => signer.sign(id, '1763661234', BODY, [secret]));
  timed('the same with createHmac', () => createHmac('sha256', secret).update(`${id}.1763661234.`).update(BODY).digest('base64'));
  timed('guard: parse and judge an address', () => addressVerdict(parseAddress('93.184.216.34') ?? new Uint8Array(16), policy));
}

function timed(name: string, work: () => unknown): void {
  const times = 200_000;
  for (let i = 0; i < times / 10; i++) work();
  const begun = performance.now();
  for (let i = 0; i < times; i++) work();
  print(name, `${(((performance.now() - begun) * 1000) / times).toFixed(2)} µs`);
}

function print(name: string, figure: string): void {
  process.stdout.write(`${name.padEnd(36)} ${figure}\n`);
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? 0;
}

/** The cheapest receiver there is: it looks for the end of each request, never at its meaning. */
function receive(): void {
  const server = createServer((socket) => {
    socket.setNoDelay(true);
    let missing = 0;
    socket.on('data', (chunk) => {
      if (missing === 0) {
        const text = chunk.toString('latin1', 0, Math.min(chunk.length, 2048));
        const length = /content-length: (\d+)/.exec(text);
        missing = text.indexOf('\r\n\r\n') + 4 + Number(length?.[1] ?? 0);
      }
      missing -= chunk.length;
      if (missing <= 0) {
        missing = 0;
        socket.write(ANSWER);
      }
    });
    socket.on('error', () => socket.destroy());
  });
  server.listen(0, '127.0.0.1', () => {
    const address = server.address();
    process.send?.(address !== null && typeof address === 'object' ? address.port : 0);
  });
}

if (process.argv[2] === 'receiver') receive();
else await main();
