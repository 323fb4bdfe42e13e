// Many connections that each send one request after another: autocannon, of which only this much is used.
import type { EventEmitter } from 'node:events';
import { createRequire } from 'node:module';

const CONNECTIONS = 64;

export interface Result {
  requests: { total: number };
  errors: number;
  timeouts: number;
  non2xx: number;
}

export interface Options {
  url: string;
  method: 'GET' | 'POST';
  headers: Record<string, string>;
  body?: string;
  connections: number;
  amount?: number;
  duration?: number;
  /** Sent in turns, in place of the one above. */
  requests?: readonly PlannedRequest[];
  /** Requests a second, of all connections. */
  overallRate?: number;
  setupClient(client: LoadClient): void;
}

export interface PlannedRequest {
  method: 'GET' | 'POST';
  path: string;
  headers: Record<string, string>;
  body?: string;
  /** Called before it is sent; what it returns is sent. */
  setupRequest?(request: PlannedRequest): PlannedRequest;
  onResponse?(status: number, body: string): void;
}

export interface LoadClient extends EventEmitter {
  setRequests(requests: readonly PlannedRequest[]): void;
}

export const autocannon = createRequire(import.meta.url)('autocannon') as (options: Options) => Promise<Result>;

export interface Load {
  requests: number;
  requests_s: number;
}

type Request = Pick<Options, 'url' | 'method' | 'headers' | 'body'>;

/** Sends until `amount` requests are answered, or for `duration_s`; throws where any of them was refused. */
export async function load(request: Request, until: { amount: number } | { duration_s: number }): Promise<Load> {
  const limit = 'amount' in until ? { amount: until.amount } : { duration: until.duration_s };
  // It looks only once a second whether it is done, so the time is ours: from the first client to the last answer.
  let first_ms = Number.POSITIVE_INFINITY;
  let last_ms = 0;
  const setupClient = (client: EventEmitter): void => {
    first_ms = Math.min(first_ms, performance.now());
    client.on('response', () => {
      last_ms = performance.now();
    });
  };
  const result = await autocannon({ ...request, connections: CONNECTIONS, ...limit, setupClient });
  const bad = result.errors + result.timeouts + result.non2xx;
  if (bad > 0) throw new Error(`${bad} of ${result.requests.total} requests to ${request.url} failed`);
  return { requests: result.requests.total, requests_s: (result.requests.total / (last_ms - first_ms)) * 1_000 };
}
