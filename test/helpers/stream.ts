// A reader of a progress stream, over a WebSocket or as Server-Sent Events, that keeps what came. Its engine ends it at the latest.
import http from 'node:http';
import type { Socket } from 'node:net';
import WebSocket from 'ws';
import type { StreamProgress, StreamSnapshot, StreamTask } from '../../src/schema/types.gen.ts';

export type Frame = StreamSnapshot | StreamProgress | StreamTask;

export interface Reading {
  readonly frames: readonly Frame[];
  /** When each came, on the monotonic clock (ms). */
  readonly came_ms: readonly number[];
  /** Resolves with the first frame, of those there are or will be, that is as wanted; rejects where the stream ends before. */
  until(holds: (frame: Frame) => boolean): Promise<Frame>;
  /** Resolves with the close code of a WebSocket; with 0 where an event stream ended, -1 where its connection broke. */
  readonly ended: Promise<number>;
  readonly code: number | null;
  send(data: string | Buffer): void;
  /** Reads nothing more from the socket, as one that hangs. */
  pause(): void;
  resume(): void;
  close(): void;
}

export class Refused extends Error {
  readonly status: number;
  readonly body: { error: { code: string; message: string; details: Record<string, unknown> } };
  readonly headers: http.IncomingHttpHeaders;

  constructor(status: number, text: string, headers: http.IncomingHttpHeaders) {
    super(`refused with ${status}: ${text}`);
    this.status = status;
    this.headers = headers;
    this.body = JSON.parse(text) as Refused['body'];
  }
}

/** Resolves once it is open; rejects with Refused. `token` null sends none. */
export function openSocket(url: string, path: string, token: string | null): Promise<Reading> {
  const ws = new WebSocket(url.replace('http', 'ws') + path, { headers: token === null ? {} : { authorization: `Bearer ${token}` } });
  const book = makeBook();
  ws.on('message', (data: Buffer) => book.add(data.toString()));
  ws.on('close', (code) => book.end(code));
  return new Promise((resolve, reject) => {
    ws.on('error', reject);
    ws.once('unexpected-response', (_request, response: http.IncomingMessage) => refuse(response, reject));
    const socket = (): Socket => (ws as unknown as { _socket: Socket })._socket;
    ws.once('open', () =>
      resolve({
        ...book.reading,
        get code() {
          return book.reading.code;
        },
        send: (data) => ws.send(data),
        pause: () => void socket().pause(),
        resume: () => void socket().resume(),
        close: () => ws.close(),
      }),
    );
  });
}

/** The same for Server-Sent Events. */
export function openEvents(url: string, path: string, token: string | null): Promise<Reading> {
  const book = makeBook();
  return new Promise((resolve, reject) => {
    const headers = token === null ? {} : { authorization: `Bearer ${token}` };
    const request = http.get(url + path, { agent: false, headers }, (response) => {
      if (response.statusCode !== 200) return refuse(response, reject);
      let rest = '';
      response.setEncoding('utf8').on('data', (text: string) => {
        const events = (rest + text).split('\n\n');
        rest = events.pop() ?? '';
        for (const event of events) if (event.startsWith('data: ')) book.add(event.slice('data: '.length));
      });
      response.once('close', () => book.end(response.complete ? 0 : -1));
      response.on('error', () => {});
      resolve({
        ...book.reading,
        get code() {
          return book.reading.code;
        },
        send: () => {},
        pause: () => void response.socket.pause(),
        resume: () => void response.socket.resume(),
        close: () => void request.destroy(),
      });
    });
    request.on('error', reject);
  });
}

function refuse(response: http.IncomingMessage, reject: (error: Error) => void): void {
  let text = '';
  response.setEncoding('utf8').on('data', (part: string) => {
    text += part;
  });
  response.once('end', () => reject(new Refused(response.statusCode ?? 0, text, response.headers)));
}

function makeBook() {
  const frames: Frame[] = [];
  const came_ms: number[] = [];
  const waiting = new Set<{ holds: (frame: Frame) => boolean; resolve: (frame: Frame) => void; reject: (error: Error) => void }>();
  let code: number | null = null;
  let resolveEnded = (_code: number): void => {};
  const ended = new Promise<number>((resolve) => {
    resolveEnded = resolve;
  });
  return {
    reading: {
      frames,
      came_ms,
      ended,
      get code() {
        return code;
      },
      until: (holds: (frame: Frame) => boolean) =>
        new Promise<Frame>((resolve, reject) => {
          const found = frames.find(holds);
          if (found !== undefined) return resolve(found);
          if (code !== null) return reject(new Error(`the stream ended with ${code} before that`));
          waiting.add({ holds, resolve, reject });
        }),
    },
    add(text: string) {
      const frame = JSON.parse(text) as Frame;
      frames.push(frame);
      came_ms.push(performance.now());
      for (const one of waiting) {
        if (!one.holds(frame)) continue;
        waiting.delete(one);
        one.resolve(frame);
      }
    },
    end(with_code: number) {
      code ??= with_code;
      for (const one of waiting) one.reject(new Error(`the stream ended with ${code}; last: ${JSON.stringify(frames.at(-1))}`));
      waiting.clear();
      resolveEnded(code);
    },
  };
}

export function isProgress(frame: Frame): frame is StreamProgress {
  return frame.type === 'progress' || frame.type === 'finished';
}

export function isTask(frame: Frame): frame is StreamTask {
  return frame.type === 'task';
}
