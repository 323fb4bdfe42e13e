// A mixed load on one server: of ten requests seven read a batch, two create one, one adds to one. What they make runs.
//
// Who adds must have something to add to, so every other batch is made held, and released when it was added to: a request that is
// not in the figures, beside each add.
import type { Api } from './api.ts';
import { autocannon, type LoadClient, type PlannedRequest } from './load.ts';
import { task } from './payload.ts';

export const KINDS = ['read', 'create', 'add'] as const;
export type Kind = (typeof KINDS)[number];

/** A cycle of ten; clients begin at different places, none of them with an add: the first request is made before it is sent. */
const CYCLE = ['read', 'create', 'read', 'read', 'hold', 'read', 'read', 'add', 'read', 'read'] as const;
const TASKS = 5;
/** Of those that can be read. */
const KNOWN_MAX = 1_000;
/** The pool begins with so many held batches for each connection, and gets one for each that it gives. */
const HELD_EACH = 3;

export interface MixOptions {
  url: string;
  token: string;
  /** What the tasks call. */
  target: string;
  connections: number;
  duration_s: number;
  /** Requests a second; absent: as fast as they are answered. */
  rate?: number;
}

export interface MixResult {
  requests: number;
  requests_s: number;
  /** Milliseconds, of each request. */
  took_ms: Record<Kind, number[]>;
  tasks: number;
}

export async function mix(api: Api, options: MixOptions): Promise<MixResult> {
  const { url, token, target, connections, duration_s, rate } = options;
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  const list = Array.from({ length: TASKS }, (_, i) => task(target, i));
  const create = JSON.stringify({ tasks: list });
  const hold = JSON.stringify({ tasks: list, options: { hold: true } });
  const add = JSON.stringify({ tasks: list });

  const held = await api.createBatches(Array.from({ length: connections * HELD_EACH }, () => hold));
  const known = [...held];
  const releases: Promise<void>[] = [];
  let next = 0;
  let made = held.length;
  const made_now = (status: number, body: string): string => {
    if (status !== 201) throw new Error(`a create was answered ${status}: ${body.slice(0, 300)}`);
    const { id } = JSON.parse(body) as { id: string };
    known[made++ % KNOWN_MAX] = id;
    return id;
  };
  const taken: string[] = [];
  const plans: Record<(typeof CYCLE)[number], PlannedRequest> = {
    read: {
      ...{ method: 'GET', path: '/v1/batches', headers },
      setupRequest: (request) => ({ ...request, path: `/v1/batches/${known[next++ % known.length]}` }),
    },
    create: {
      ...{ method: 'POST', path: '/v1/batches', headers, body: create },
      onResponse: (status, body) => void made_now(status, body),
    },
    hold: {
      ...{ method: 'POST', path: '/v1/batches', headers, body: hold },
      onResponse: (status, body) => void held.push(made_now(status, body)),
    },
    add: {
      ...{ method: 'POST', path: '/v1/batches', headers, body: add },
      setupRequest: (request) => {
        const id = held.shift();
        if (id === undefined) throw new Error('no batch is left to add to');
        taken.push(id);
        return { ...request, path: `/v1/batches/${id}/tasks` };
      },
      // Its answer names the batch.
      onResponse: (status, body) => {
        if (status >= 300) throw new Error(`an add was answered ${status}: ${body.slice(0, 300)}`);
        releases.push(api.release((JSON.parse(body) as { id: string }).id));
      },
    },
  };

  const took_ms: MixResult['took_ms'] = { read: [], create: [], add: [] };
  let [first_ms, last_ms] = [Number.POSITIVE_INFINITY, 0];
  const starts = CYCLE.flatMap((kind, at) => (kind === 'read' ? [at] : []));
  let clients = 0;
  const setupClient = (client: LoadClient): void => {
    const start = starts[clients++ % starts.length] ?? 0;
    const order = [...CYCLE.slice(start), ...CYCLE.slice(0, start)];
    client.setRequests(order.map((kind) => ({ ...plans[kind] })));
    let at = 0;
    first_ms = Math.min(first_ms, performance.now());
    client.on('response', (_status: number, _bytes: number, ms: number) => {
      const kind = order[at++ % order.length] ?? 'read';
      took_ms[kind === 'hold' ? 'create' : kind].push(ms);
      last_ms = performance.now();
    });
  };
  const base = { url, method: 'GET' as const, headers, connections, duration: duration_s, requests: [plans.read], setupClient };
  const result = await autocannon(rate === undefined ? base : { ...base, overallRate: rate });
  const bad = result.errors + result.timeouts + result.non2xx;
  if (bad > 0)
    throw new Error(
      `${result.errors} errors, ${result.timeouts} timeouts and ${result.non2xx} refusals among ${result.requests.total} requests`,
    );
  await Promise.all(releases);
  // What was cut off by the end may have been taken or not; it is let go too, and its tasks are not counted on.
  await api.releaseAll([...held, ...taken]);
  const requests = took_ms.read.length + took_ms.create.length + took_ms.add.length;
  return { requests, requests_s: (requests / (last_ms - first_ms)) * 1_000, took_ms, tasks: (made + took_ms.add.length) * TASKS };
}
