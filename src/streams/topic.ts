// The streams that get the same frames: those of a batch with, or without, its tasks. Frames are numbered in one row, so
// each is encoded once for all of them; a stream that joins later begins with the number that the row has reached.
import type { FromStreamThread } from './messages.ts';

export type Post = (message: FromStreamThread, moved: ArrayBuffer[]) => void;

const encoder = new TextEncoder();

export class Topic {
  readonly name: string;
  readonly #streams = new Set<string>();
  readonly #post: Post;
  #seq = 0;
  #waiting: string[] = [];

  constructor(name: string, post: Post) {
    this.name = name;
    this.#post = post;
  }

  get size(): number {
    return this.#streams.size;
  }

  /** Numbers go on from where another life of this thread had left them. */
  goOnFrom(seq: number): void {
    this.#seq = Math.max(this.#seq, seq);
  }

  /** `body`: the stream's first frame, as JSON without its number. */
  join(stream: string, body: string): void {
    this.#streams.add(stream);
    const frame = encoder.encode(numbered(body, this.#seq));
    this.#post({ type: 'join', stream, topic: this.name, seq: this.#seq, frame }, [frame.buffer]);
  }

  leave(stream: string): void {
    this.#streams.delete(stream);
  }

  /** Numbers a frame for everyone here; sent with `flush`. */
  add(body: string): void {
    if (this.#streams.size === 0) return;
    this.#seq += 1;
    this.#waiting.push(numbered(body, this.#seq));
  }

  /** Sends what was added; returns its bytes. */
  flush(): number {
    if (this.#waiting.length === 0) return 0;
    const texts = this.#waiting;
    this.#waiting = [];
    const frames = encoder.encode(texts.join(''));
    let end = 0;
    const ends = texts.map((text) => {
      end += Buffer.byteLength(text);
      return end;
    });
    const bytes = frames.byteLength;
    this.#post({ type: 'frames', topic: this.name, seq: this.#seq, frames, ends }, [frames.buffer]);
    return bytes;
  }
}

function numbered(body: string, seq: number): string {
  return `${body.slice(0, -1)},"seq":${seq}}`;
}
