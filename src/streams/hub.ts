// The main thread's side: which stream is served by which stream thread, and what to do when one starts again.
import { partitionOf } from '../base/id.ts';
import type { FromStreamThread, StreamEnd, StreamGrant, ToStreamThread } from './messages.ts';

/** Where frames go: the sockets. */
export interface StreamOutlet {
  /** A stream's own frame; from here on it gets those of the topic. */
  join(stream: string, topic: string, frame: Uint8Array): void;
  publish(topic: string, frames: Uint8Array, ends: readonly number[]): void;
  /** Ends all streams of a topic, or one. */
  end(topic: string, end: StreamEnd): void;
  endOne(stream: string, end: StreamEnd): void;
}

interface Open extends StreamGrant {
  topic: string | null;
}

export class StreamHub {
  readonly #threads: number;
  readonly #post: (index: number, message: ToStreamThread) => void;
  readonly #open = new Map<string, Open>();
  /** Topic → number of its last frame, and how many of the open streams are in it. */
  readonly #topics = new Map<string, { seq: number; streams: number }>();
  /** Set by the front door before the first stream. */
  outlet: StreamOutlet | null = null;

  constructor(threads: number, post: (index: number, message: ToStreamThread) => void) {
    this.#threads = threads;
    this.#post = post;
  }

  /** Open now. */
  get count(): number {
    return this.#open.size;
  }

  open(grant: StreamGrant): void {
    this.#open.set(grant.stream, { ...grant, topic: null });
    this.#post(this.#threadOf(grant.core), { type: 'open', behind: null, ...grant });
  }

  /** Its socket is closed, whoever closed it; or it was never opened, and its place is to be freed. */
  close({ stream, core }: StreamGrant): void {
    const topic = this.#open.get(stream)?.topic;
    this.#open.delete(stream);
    const known = topic == null ? undefined : this.#topics.get(topic);
    if (topic != null && known !== undefined && --known.streams === 0) this.#topics.delete(topic);
    this.#post(this.#threadOf(core), { type: 'close', stream, core });
  }

  /** A thread has begun, perhaps again: its streams go on with a fresh snapshot. */
  onReady(index: number): void {
    for (const { topic, ...grant } of this.#open.values()) {
      if (this.#threadOf(grant.core) !== index) continue;
      const behind = topic === null ? null : (this.#topics.get(topic)?.seq ?? 0);
      this.#post(index, { type: 'open', behind, ...grant });
    }
  }

  onMessage(index: number, message: Exclude<FromStreamThread, { type: 'metrics' }>): void {
    const { outlet } = this;
    switch (message.type) {
      case 'join': {
        const open = this.#open.get(message.stream);
        if (open === undefined) return;
        const topic = this.#topics.get(message.topic) ?? { seq: 0, streams: 0 };
        this.#topics.set(message.topic, topic);
        if (open.topic === null) topic.streams += 1;
        open.topic = message.topic;
        topic.seq = message.seq;
        return outlet?.join(message.stream, message.topic, message.frame);
      }
      case 'frames': {
        const topic = this.#topics.get(message.topic);
        if (topic !== undefined) topic.seq = message.seq;
        outlet?.publish(message.topic, message.frames, message.ends);
        return this.#post(index, { type: 'taken', bytes: message.frames.byteLength });
      }
      case 'end':
        return outlet?.end(message.topic, message.end);
      case 'end_one':
        return outlet?.endOne(message.stream, message.end);
    }
  }

  #threadOf(core: string): number {
    return partitionOf(core) % this.#threads;
  }
}
