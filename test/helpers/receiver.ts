// A receiver of callbacks: a real HTTP server that writes down every call and answers as each path was told.
import http from 'node:http';
import { after } from 'node:test';
import { until } from './redis.ts';

/** How a call is answered; 200 with a short JSON body where nothing else is said. */
export interface Answer {
  status?: number;
  headers?: Record<string, string>;
  body?: string | Buffer;
  /** Before the answer begins. */
  delay_ms?: number;
  /** Answered only after `release`. */
  hold?: true;
  /** The connection is closed instead of an answer. */
  close?: true;
  /** The connection is closed after the head and half of the body. */
  cut?: true;
  /** Bytes of body that follow one by one at this interval, without end. */
  drip_ms?: number;
}

export interface ReceivedCall {
  method: string;
  path: string;
  headers: http.IncomingHttpHeaders;
  /** Names and values as they came. */
  raw_headers: readonly string[];
  body: Buffer;
  at_ms: number;
  /** `webhook-id`: the task. */
  id: string;
  /** `x-sluice-attempt`. */
  attempt: number;
  /** Its answer was written whole. */
  answered: boolean;
  /** The caller went away before that. */
  gone: boolean;
}

export interface Receiver {
  readonly url: string;
  /** In order of arrival. */
  readonly calls: readonly ReceivedCall[];
  /** Says how calls to this path are answered: of each task the first by the first answer, …, all others by the last. The URL. */
  at(path: string, ...answers: Answer[]): string;
  /** Those to one path; the list grows with later calls. */
  to(path: string): readonly ReceivedCall[];
  /** Waits until so many calls to the path have come. */
  heard(path: string, count: number, ms_max?: number): Promise<readonly ReceivedCall[]>;
  /** Calls that wait for `release`, and whose caller is still there. */
  held(path?: string): ReceivedCall[];
  /** Answers what is held; with `false` for later calls, those are answered at once from here on. */
  release(path: string, hold_later?: boolean): void;
}

const HEARD_MS_MAX = 20_000;

/** Listens on a port of this machine, a free one unless given; closed by itself when the test, or the file, that made it ends. */
export async function startReceiver(port = 0): Promise<Receiver> {
  const calls: ReceivedCall[] = [];
  const by_path = new Map<string, ReceivedCall[]>();
  const answers = new Map<string, Answer[]>();
  const held = new Map<ReceivedCall, () => void>();
  const counts = new Map<string, number>();

  const to = (path: string): ReceivedCall[] => {
    const list = by_path.get(path) ?? [];
    by_path.set(path, list);
    return list;
  };
  const server = http.createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.once('end', () => {
      const call = toCall(request, Buffer.concat(chunks));
      calls.push(call);
      to(call.path).push(call);
      const path = call.path.replace(/\?.*$/s, '');
      const key = `${path} ${call.id}`;
      const count = counts.get(key) ?? 0;
      counts.set(key, count + 1);
      const list = answers.get(path) ?? [{}];
      const answer = list[Math.min(count, list.length - 1)] ?? {};
      response.once('finish', () => {
        call.answered = true;
      });
      response.once('close', () => {
        call.gone = !call.answered;
        held.delete(call);
      });
      if (answer.hold === true) held.set(call, () => write(response, answer));
      else if (answer.delay_ms !== undefined) setTimeout(() => write(response, answer), answer.delay_ms);
      else write(response, answer);
    });
  });
  server.on('clientError', (_error, socket) => socket.destroy());
  await new Promise<void>((resolve) => server.listen({ port, host: '127.0.0.1', backlog: 4_096 }, resolve));
  after(() => {
    server.close();
    server.closeAllConnections();
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  const url = `http://127.0.0.1:${address.port}`;

  const heldAt = (path?: string): ReceivedCall[] => [...held.keys()].filter((call) => path === undefined || call.path === path);
  return {
    url,
    calls,
    at(path, ...list) {
      answers.set(path, list);
      return url + path;
    },
    to,
    async heard(path, count, ms_max = HEARD_MS_MAX) {
      await until(() => to(path).length >= count, ms_max, `${count} calls to ${path}`).catch((error: unknown) => {
        throw new Error(`${String(error)}; ${to(path).length} came`);
      });
      return to(path);
    },
    held: heldAt,
    release(path, hold_later = false) {
      const list = answers.get(path) ?? [];
      if (!hold_later) {
        answers.set(
          path,
          list.map(({ hold: _hold, ...rest }) => rest),
        );
      }
      for (const call of heldAt(path)) {
        const answer = held.get(call);
        held.delete(call);
        answer?.();
      }
    },
  };
}

function toCall(request: http.IncomingMessage, body: Buffer): ReceivedCall {
  return {
    method: request.method ?? '',
    path: request.url ?? '',
    headers: request.headers,
    raw_headers: request.rawHeaders,
    body,
    at_ms: Date.now(),
    id: String(request.headers['webhook-id'] ?? ''),
    attempt: Number(request.headers['x-sluice-attempt']),
    answered: false,
    gone: false,
  };
}

function write(response: http.ServerResponse, answer: Answer): void {
  if (response.destroyed) return;
  if (answer.close === true) return void response.socket?.destroy();
  const body = answer.body ?? '{"ok":true}';
  if (answer.cut === true) {
    response.writeHead(answer.status ?? 200, { 'content-length': String(Buffer.byteLength(body) * 2), ...answer.headers });
    response.write(body, () => response.socket?.destroy());
    return;
  }
  response.writeHead(answer.status ?? 200, { 'content-type': 'application/json', ...answer.headers });
  if (answer.drip_ms === undefined) return void response.end(body);
  const timer = setInterval(() => response.write('.'), answer.drip_ms);
  response.once('close', () => clearInterval(timer));
}
