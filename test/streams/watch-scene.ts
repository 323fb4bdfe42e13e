// A watch with a Redis that says what the test wants, and what it said itself.
import { after } from 'node:test';
import type { BatchRow } from '../../src/store/batches.ts';
import type { EndedRun, Look } from '../../src/store/streams.ts';
import type { FromStreamThread } from '../../src/streams/messages.ts';
import { Watch, type WatchHost } from '../../src/streams/watch.ts';
import { until } from '../helpers/redis.ts';

export const ROW: BatchRow = {
  core: 'core',
  account_id: 'acme',
  status: 'processing',
  total: 10,
  completed: 0,
  failed: 0,
  cancelled: 0,
  running: 0,
  created_ms: 1,
  updated_ms: 1,
  finished_ms: null,
  doc: '{}',
  bases: [0],
  undealt: null,
  held: false,
};

interface Frame {
  type: string;
  seq: number;
  completed?: number;
  task?: number;
  gap?: true;
}

/** A watch with what it said; `answer` is what the next looks find. */
export function stage(options: { look_ms?: number } = {}) {
  const said: Frame[] = [];
  const messages: FromStreamThread[] = [];
  const gone: string[] = [];
  const state: {
    answer: Look | Error;
    room: boolean;
    waiting: number;
    looks: number;
    reads: number;
    results: Error | null;
    behind_read: (() => void) | null;
  } = {
    answer: { hint: 0, batch: ROW, lost: [] },
    room: true,
    waiting: 0,
    looks: 0,
    reads: 0,
    results: null,
    behind_read: null,
  };
  const host: WatchHost = {
    views: {
      batch: ({ completed }) => ({ completed }),
      progress: ({ completed }) => ({ completed }),
      task: (_core, task, result) => ({ ...task, result }),
    },
    look_ms: options.look_ms ?? 60_000,
    post: (message) => {
      messages.push(message);
      if (message.type === 'join') said.push(read(message.frame));
      if (message.type !== 'frames') return;
      let from = 0;
      for (const end of message.ends) {
        said.push(read(message.frames.slice(from, end)));
        from = end;
      }
    },
    look: async () => {
      state.looks += 1;
      if (state.answer instanceof Error) throw state.answer;
      return state.answer;
    },
    results: async () => {
      state.reads += 1;
      if (state.results !== null) throw state.results;
      return new Map();
    },
    stopped: async (_batch, max) => {
      const { waiting, behind_read } = state;
      state.behind_read = null;
      behind_read?.();
      return waiting > max ? null : [{ from: 0, tasks: waiting }];
    },
    sent: () => state.room,
    failed: () => {},
    gone: (streams) => void gone.push(...streams),
  };
  const watch = new Watch('core', host);
  after(() => watch.close());
  let number = 0;
  const hint = (completed: number, ended: EndedRun[] = [], more: Partial<BatchRow> = {}): void => {
    number += 1;
    const { status, total, failed, cancelled, running, updated_ms, finished_ms } = { ...ROW, ...more };
    watch.hint({ number, state: { status, total, completed, failed, cancelled, running, updated_ms, finished_ms }, ended });
  };
  const lose = (count = 1): void => {
    number += count;
  };
  const says = (holds: (frames: Frame[]) => boolean, what: string): Promise<void> => until(() => holds(said), 2_000, what);
  return { watch, said, messages, gone, state, hint, lose, says };
}

function read(bytes: Uint8Array): Frame {
  const { type, seq, gap, completed, batch, task } = JSON.parse(Buffer.from(bytes).toString()) as {
    type: string;
    seq: number;
    gap?: true;
    completed?: number;
    batch?: { completed: number };
    task?: { index: number };
  };
  const shown = completed ?? batch?.completed;
  return {
    type,
    seq,
    ...(shown === undefined ? {} : { completed: shown }),
    ...(task ? { task: task.index } : {}),
    ...(gap ? { gap } : {}),
  };
}

export const done = (from: number, tasks = 1): EndedRun => ({ status: 'completed', from, tasks });
