// What the main thread and a stream thread tell each other; structured-cloneable.
import type { MetricsSnapshot } from '../metrics/registry.ts';

/** A stream that may be opened: its place is taken. */
export interface StreamGrant {
  /** Unique over all processes: names its place. */
  stream: string;
  core: string;
  /** Whether it is told of each task that ends. */
  tasks: boolean;
}

/** Why a stream ends: the close code of its WebSocket, and what the close frame says. */
export const ENDS = {
  finished: { code: 1000, text: 'the batch has ended' },
  deleted: { code: 1001, text: 'the batch was deleted' },
  shutdown: { code: 1001, text: 'the server is shutting down' },
  revoked: { code: 1008, text: 'the token was revoked or has expired' },
  misused: { code: 1008, text: 'messages of at most 4096 bytes, at most 10 a second' },
  slow: { code: 1013, text: 'more than 256 KiB behind' },
  crowded: { code: 1013, text: 'its place was taken' },
} as const;
export type StreamEnd = keyof typeof ENDS;

export type ToStreamThread =
  /** `behind`: it was open already, in another life of this thread, and the last frame that it got has this number. */
  | ({ type: 'open'; behind: number | null } & StreamGrant)
  | { type: 'close'; stream: string; core: string }
  /** So many bytes of frames were handed to the sockets. */
  | { type: 'taken'; bytes: number }
  | { type: 'stop'; deadline_ms: number };

export type FromStreamThread =
  /** A stream's own frame; from here on it gets those of the topic. `seq`: the number of its last frame. */
  | { type: 'join'; stream: string; topic: string; seq: number; frame: Uint8Array }
  /** For all streams of a topic: frames one behind the other, and where each ends. */
  | { type: 'frames'; topic: string; seq: number; frames: Uint8Array; ends: number[] }
  | { type: 'end'; topic: string; end: StreamEnd }
  | { type: 'end_one'; stream: string; end: StreamEnd }
  | { type: 'metrics'; snapshot: MetricsSnapshot };
