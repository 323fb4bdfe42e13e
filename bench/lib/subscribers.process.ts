// Many WebSockets on streams of batches, in a process of its own: opens them, notes what they are told, and answers when
// all are closed.
import WebSocket from 'ws';
import { machineMs } from './receiver.ts';

export type SubscribersQuestion =
  /** Answered when each has got its first frame. */
  | { type: 'open'; url: string; token: string; paths: readonly string[]; each: number; note: boolean }
  /** Answered when all are closed. */
  | { type: 'closed' };

export interface SubscribersAnswer {
  /** After the first one of each. */
  frames: number;
  bytes: number;
  /** From the first of these frames to the last. */
  ms: number;
  /** Closed with another code than 1000. */
  cut: number;
  /** Where they were to be noted: index of the path, completed tasks of the frame before, of this one, and when it came. */
  told: [path: number, from: number, to: number, at_ms: number][];
}

const OPENING_MAX = 64;

let open = 0;
let answer: SubscribersAnswer = nothing();
let first_ms = 0;
let onAllClosed = (): void => {};

function nothing(): SubscribersAnswer {
  return { frames: 0, bytes: 0, ms: 0, cut: 0, told: [] };
}

async function openAll({ url, token, paths, each, note }: Extract<SubscribersQuestion, { type: 'open' }>): Promise<void> {
  answer = nothing();
  const places = Array.from({ length: paths.length * each }, (_, i) => i % paths.length).entries();
  const opener = async (): Promise<void> => {
    for (const [, index] of places) await openOne(`${url.replace('http', 'ws')}${paths[index]}`, token, note ? index : null);
  };
  await Promise.all(Array.from({ length: OPENING_MAX }, opener));
}

/** `index`: of its path, where its frames are to be noted. */
function openOne(url: string, token: string, index: number | null): Promise<void> {
  const socket = new WebSocket(url, { headers: { authorization: `Bearer ${token}` }, perMessageDeflate: false, skipUTF8Validation: true });
  return new Promise((resolve, reject) => {
    let begun = false;
    let completed = 0;
    socket.on('message', (data: Buffer) => {
      const before = completed;
      if (index !== null) completed = completedOf(data);
      if (!begun) {
        begun = true;
        open++;
        return resolve();
      }
      count(data.byteLength);
      if (index !== null && completed > before) answer.told.push([index, before, completed, machineMs()]);
    });
    socket.once('error', reject);
    socket.once('close', (code) => {
      if (!begun) return reject(new Error(`a stream was closed with ${code} before its first frame`));
      if (code !== 1000) answer.cut++;
      if (--open === 0) onAllClosed();
    });
  });
}

function count(bytes: number): void {
  const now_ms = machineMs();
  if (answer.frames === 0) first_ms = now_ms;
  answer.frames++;
  answer.bytes += bytes;
  answer.ms = now_ms - first_ms;
}

function completedOf(data: Buffer): number {
  const frame = JSON.parse(data.toString()) as { batch?: { stats: { completed: number } }; stats?: { completed: number } };
  return (frame.batch ?? frame).stats?.completed ?? 0;
}

process.on('message', async (question: SubscribersQuestion) => {
  if (question.type === 'open') await openAll(question);
  else if (open > 0) {
    await new Promise<void>((resolve) => {
      onAllClosed = resolve;
    });
  }
  process.send?.(answer);
});
process.send?.({ type: 'ready', port: 0 });
