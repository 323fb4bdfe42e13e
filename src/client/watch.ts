// Follows a batch until it ends, over a WebSocket where there is one, else over Server-Sent Events; both carry the same frames.
// A connection that breaks is opened again: the snapshot that comes first makes up for what was missed.
import type { StreamProgress, StreamSnapshot, StreamTask } from '../schema/types.gen.ts';
import { piecesOf } from './pieces.ts';
import { refusalOf, SluiceError, type Transport, wait } from './transport.ts';

export type Frame = StreamSnapshot | StreamProgress | StreamTask;

export interface WatchOptions {
  /** Also a frame for each task that finishes. */
  tasks?: boolean;
  signal?: AbortSignal;
  /** Told when a connection has given its first frame, and when it is gone. */
  onConnection?(connected: boolean): void;
}

const PAUSE_MS = 500;
const PAUSE_MS_MAX = 10_000;
/** Frames that nobody has taken yet. A reader this far behind loses the connection, and starts again from a snapshot. */
const BACKLOG_MAX = 10_000;

/** Yields frames until `finished`, which is the last one. Rejects with a SluiceError where the service refuses for good. */
export async function* watchBatch(
  transport: Transport,
  ticketFor: (batch_id: string, options: { signal?: AbortSignal }) => Promise<{ ticket: string }>,
  batch_id: string,
  { tasks = false, signal, onConnection }: WatchOptions = {},
): AsyncGenerator<Frame, void, undefined> {
  const path = `/v1/batches/${encodeURIComponent(batch_id)}`;
  const aborted = (): boolean => signal?.aborted ?? false;
  for (let failures = 0; !aborted(); failures++) {
    let connected = false;
    try {
      if (failures > 0) await wait(Math.min(PAUSE_MS_MAX, PAUSE_MS * 2 ** (failures - 1)), signal);
      let frames: AsyncGenerator<Frame>;
      if (typeof WebSocket === 'undefined') frames = events(transport, `${path}/events?tasks=${tasks}`, signal);
      else {
        const { ticket } = await ticketFor(batch_id, signal === undefined ? {} : { signal });
        frames = socket(transport, `${path}/stream?tasks=${tasks}&ticket=${encodeURIComponent(ticket)}`, signal);
      }
      for await (const frame of frames) {
        failures = 0;
        if (!connected) onConnection?.(true);
        connected = true;
        yield frame;
        if (frame.type === 'finished') return;
      }
    } catch (error) {
      if (error instanceof SluiceError && error.status !== 429 && error.status < 500) throw error;
      if (aborted()) return;
    } finally {
      if (connected) onConnection?.(false);
    }
  }
}

async function* events(transport: Transport, path: string, signal: AbortSignal | undefined): AsyncGenerator<Frame> {
  const response = await transport.send(path, { headers: { Accept: 'text/event-stream' }, signal: signal ?? null });
  if (!response.ok) throw refusalOf(response, await response.text().catch(() => ''));
  for await (const part of piecesOf(response, '\n\n')) {
    const data = part.split('\n').flatMap((line) => (line.startsWith('data:') ? [line.slice(5).trimStart()] : []));
    if (data.length > 0) yield JSON.parse(data.join('\n')) as Frame;
  }
}

async function* socket(transport: Transport, path: string, signal: AbortSignal | undefined): AsyncGenerator<Frame> {
  // In a page that the service itself gave, paths are relative to it.
  const page = (globalThis as { location?: { href: string } }).location;
  const url = new URL(transport.base_url + path, page?.href);
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
  const connection = new WebSocket(url);
  const frames: Frame[] = [];
  let closed = false;
  let wake = (): void => {};
  const close = (): void => {
    closed = true;
    connection.close();
    wake();
  };
  connection.onmessage = ({ data }) => {
    frames.push(JSON.parse(String(data)) as Frame);
    if (frames.length > BACKLOG_MAX) close();
    wake();
  };
  connection.onclose = close;
  connection.onerror = close;
  signal?.addEventListener('abort', close, { once: true });
  try {
    for (;;) {
      const frame = frames.shift();
      if (frame !== undefined) yield frame;
      else if (closed) return;
      else
        await new Promise<void>((done) => {
          wake = done;
        });
    }
  } finally {
    signal?.removeEventListener('abort', close);
    connection.close();
  }
}
