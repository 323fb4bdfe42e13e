// What the engine is held against: a bare undici `Pool.dispatch` loop over 128 connections, in a process of its own.
// A request has the size and the headers of a callback; nothing is stored, signed, counted or retried.
import { type Dispatcher, Pool } from 'undici';
import { payload } from './payload.ts';

export type BareQuestion = { count: number };
export type BareAnswer = { ms: number };

const CONNECTIONS = 128;
const BODY = Buffer.from(JSON.stringify(payload(50_000)));
const HEADERS = [
  ...['content-type', 'application/json'],
  ...['user-agent', 'Sluice/0.0.0'],
  ...['webhook-id', 'task_000000000000000000_12'],
  ...['webhook-timestamp', '1763661234'],
  ...['webhook-signature', `v1,${'A'.repeat(44)}`],
  ...['x-sluice-attempt', '1'],
  ...['x-sluice-batch-id', 'batch_000000000000000000'],
];

const pool = new Pool(process.argv[2] ?? '', { connections: CONNECTIONS, pipelining: 1 });

class Handler implements Dispatcher.DispatchHandler {
  readonly #next: () => void;
  constructor(next: () => void) {
    this.#next = next;
  }
  onConnect(): void {}
  onHeaders(): boolean {
    return true;
  }
  onData(): boolean {
    return true;
  }
  onComplete(): void {
    this.#next();
  }
  onError(error: Error): void {
    throw error;
  }
}

function send(count: number): Promise<void> {
  return new Promise((resolve) => {
    let begun = 0;
    let ended = 0;
    const begin = (): void => {
      if (begun === count) return;
      begun++;
      pool.dispatch({ path: '/hook', method: 'POST', headers: HEADERS, body: BODY }, new Handler(end));
    };
    const end = (): void => {
      ended++;
      if (ended === count) resolve();
      else begin();
    };
    for (let i = 0; i < CONNECTIONS; i++) begin();
  });
}

process.on('message', async ({ count }: BareQuestion) => {
  const from_ms = performance.now();
  await send(count);
  process.send?.({ ms: performance.now() - from_ms } satisfies BareAnswer);
});
process.send?.({ type: 'ready', port: 0 });
