// What streams are held against: a bare uWebSockets.js app that publishes frames to topics, the path of a socket being its
// topic, as fast as the readers take them; in a process of its own.
import { listen, uws, type WebSocket } from '../../src/http/uws.ts';

export interface PublishQuestion {
  topics: readonly string[];
  /** For each topic. */
  frames: number;
  frame_bytes: number;
}
export type PublishAnswer = Record<string, never>;

/** Frames for one topic before the next has its turn; the engine tells of no more tasks at once. */
const BURST = 500;
/** Where the engine would close a reader, this loop waits. */
const BEHIND_BYTES_MAX = 128 * 1_024;

const sockets = new Map<string, Set<WebSocket<{ topic: string }>>>();

const app = uws.App().ws<{ topic: string }>('/*', {
  maxBackpressure: 16 * 1_024 * 1_024,
  upgrade: (res, req, context) => {
    const header = (name: string): string => req.getHeader(name);
    res.upgrade(
      { topic: req.getUrl() },
      header('sec-websocket-key'),
      header('sec-websocket-protocol'),
      header('sec-websocket-extensions'),
      context,
    );
  },
  open: (ws) => {
    const { topic } = ws.getUserData();
    ws.subscribe(topic);
    sockets.set(topic, (sockets.get(topic) ?? new Set()).add(ws));
    ws.send('{}');
  },
  close: (ws) => {
    const { topic } = ws.getUserData();
    sockets.get(topic)?.delete(ws);
  },
});

async function publish({ topics, frames, frame_bytes }: PublishQuestion): Promise<void> {
  const frame = Buffer.alloc(frame_bytes, 'x');
  for (let sent = 0; sent < frames; sent += BURST) {
    for (const topic of topics) {
      while (isBehind(topic)) await new Promise((resolve) => setImmediate(resolve));
      for (let i = sent; i < Math.min(sent + BURST, frames); i++) app.publish(topic, frame);
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  for (const readers of sockets.values()) for (const ws of [...readers]) ws.end(1000);
}

function isBehind(topic: string): boolean {
  for (const ws of sockets.get(topic) ?? []) if (ws.getBufferedAmount() > BEHIND_BYTES_MAX) return true;
  return false;
}

process.on('message', async (question: PublishQuestion) => {
  await publish(question);
  process.send?.({} satisfies PublishAnswer);
});

const socket = await listen(app, '127.0.0.1', 0);
if (socket === false) throw new Error('the bare publisher cannot listen');
process.send?.({ type: 'ready', port: uws.us_socket_local_port(socket) });
