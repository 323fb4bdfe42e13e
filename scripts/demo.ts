// See it work: a server with its own Redis, a receiver, and a batch of 100 calls between them. Ends what it started.
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { Engine } from '../bench/lib/engine.ts';

const TASKS = 100;
/** Every so many calls, the receiver refuses the first try: the server tries again on its own. */
const REFUSES_EVERY = 20;
/** How long the receiver thinks, at most, so that there is something to see. */
const THINKS_MS_MAX = 1_500;
const LOOK_AGAIN_MS = 50;
const BAR_WIDTH = 40;
const MS_MAX = 60_000;

interface Batch {
  id: string;
  status: string;
  stats: { total: number; pending: number; completed: number; failed: number; cancelled: number };
}

async function demo(): Promise<void> {
  const entry = fileURLToPath(new URL('../dist/main.js', import.meta.url));
  if (!existsSync(entry)) throw new Error('The server is not built yet: run "make demo", or "make build" first.');
  const { receiver, calls } = await startReceiver();
  const engine = await Engine.start({ entry });
  try {
    say(`The server listens on ${engine.url}, with a Redis of its own; a receiver on ${urlOf(receiver)}.\n`);
    const tasks = Array.from({ length: TASKS }, (_, n) => ({ target: `${urlOf(receiver)}/orders/${n}`, payload: { order: n } }));
    say(`POST /v1/batches with ${TASKS} tasks such as ${JSON.stringify(tasks[0])}`);
    const { id } = await call(engine, 'POST', '/v1/batches', { description: 'demo', tasks });
    say(`201 ${id}\n`);
    await untilFinished(engine, id);
    say(
      `\n${calls()} calls came in for ${TASKS} tasks: the receiver refused every ${REFUSES_EVERY}th task once, and the server tried it again.\n`,
    );
    say(`GET /v1/batches/${id}`);
    say(JSON.stringify(await call(engine, 'GET', `/v1/batches/${id}`), null, 2));
  } finally {
    await engine.stop();
    receiver.close();
    receiver.closeAllConnections();
  }
}

/** What somebody who uses the service writes: an HTTP endpoint that takes calls. */
async function startReceiver(): Promise<{ receiver: Server; calls: () => number }> {
  let calls = 0;
  const receiver = createServer((request, response) => {
    calls += 1;
    const order = Number(request.url?.split('/').pop());
    const refused = order % REFUSES_EVERY === 0 && request.headers['x-sluice-attempt'] === '1';
    request.resume().on('end', () => {
      setTimeout(() => response.writeHead(refused ? 503 : 200).end(), Math.random() * THINKS_MS_MAX);
    });
  });
  receiver.listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  return { receiver, calls: () => calls };
}

function urlOf(server: Server): string {
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function call(engine: Engine, method: 'GET' | 'POST', path: string, body?: object): Promise<Batch> {
  const response = await fetch(engine.url + path, {
    method,
    headers: { authorization: `Bearer ${engine.token}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return JSON.parse(text) as Batch;
}

async function untilFinished(engine: Engine, id: string): Promise<void> {
  const give_up_ms = performance.now() + MS_MAX;
  const draw = progressBar();
  while (true) {
    const { status, stats } = await call(engine, 'GET', `/v1/batches/${id}`);
    draw(stats, status);
    if (stats.pending === 0) return;
    if (performance.now() > give_up_ms) throw new Error(`The batch is not finished after ${MS_MAX / 1_000} s: ${JSON.stringify(stats)}`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
  }
}

/** On a terminal one line that is drawn again; elsewhere a line for each quarter. */
function progressBar(): (stats: Batch['stats'], status: string) => void {
  let quarter = -1;
  return ({ total, pending, failed }, status) => {
    const done = total - pending;
    const filled = Math.round((done / total) * BAR_WIDTH);
    const line = `[${'#'.repeat(filled)}${'.'.repeat(BAR_WIDTH - filled)}] ${done} of ${total} done, ${failed} failed, ${status}`;
    if (process.stdout.isTTY) process.stdout.write(`\r\x1b[K${line}${pending === 0 ? '\n' : ''}`);
    else if (Math.floor((done / total) * 4) > quarter) say(line);
    quarter = Math.floor((done / total) * 4);
  };
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}

try {
  await demo();
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
