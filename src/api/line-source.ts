// A body of one task a line as it comes in: cut into pieces of bounded size, in constant memory.
//
// Where a piece ends follows from its bytes alone, never from how they came, so a repeated request has the same pieces.

/** Whole lines, one behind the other. */
export interface Lines {
  /** Number of the first, from 0. */
  first: number;
  bytes: Buffer;
  /** Where each of them ends in `bytes`. */
  ends: readonly number[];
}

export interface LinesMax {
  lines: number;
  /** Of a piece of more than one line, and of a line. */
  bytes: number;
}

/** A line is longer than a piece may be. */
export class LineTooLong extends Error {
  readonly line: number;
  constructor(line: number) {
    super(`line ${line} is too long`);
    this.line = line;
  }
}

const NEWLINE = 0x0a;

export class LineSource {
  /** Number of the next line. */
  line = 0;
  readonly #pull: () => Promise<Buffer | null>;
  readonly #max: LinesMax;
  #blocks: Buffer[] = [];
  #bytes = 0;
  #newlines = 0;
  #ended = false;

  /** `pull` gives what comes next, null at the end. */
  constructor(pull: () => Promise<Buffer | null>, max: LinesMax) {
    this.#pull = pull;
    this.#max = max;
  }

  /** The next piece, which stays where it is until it is taken; null at the end. Throws LineTooLong. */
  async ahead(): Promise<Lines | null> {
    const max = this.#max;
    while (!this.#ended && this.#newlines < max.lines && this.#bytes <= max.bytes) {
      const block = await this.#pull();
      if (block === null) this.#ended = true;
      else this.#keep(block);
    }
    if (this.#bytes === 0) return null;
    const bytes = this.#blocks.length === 1 ? (this.#blocks[0] as Buffer) : Buffer.concat(this.#blocks);
    this.#blocks = [bytes];
    const ends: number[] = [];
    for (let end = 0; ends.length < max.lines && end < bytes.length; ) {
      const at = bytes.indexOf(NEWLINE, end);
      if (at < 0 && !this.#ended) break;
      end = at < 0 ? bytes.length : at + 1;
      if (end > max.bytes) break;
      ends.push(end);
    }
    if (ends.length === 0) throw new LineTooLong(this.line);
    return { first: this.line, bytes: bytes.subarray(0, ends.at(-1)), ends };
  }

  /** The first so many lines of what is ahead are done with. */
  take(lines: Lines, count: number): void {
    const rest = (this.#blocks[0] ?? Buffer.alloc(0)).subarray(lines.ends[count - 1]);
    this.line += count;
    [this.#blocks, this.#bytes, this.#newlines] = [[], 0, 0];
    // A copy: what is done with must not stay in memory for the sake of what is not.
    if (rest.length > 0) this.#keep(Buffer.from(rest));
  }

  #keep(block: Buffer): void {
    this.#blocks.push(block);
    this.#bytes += block.length;
    for (let at = block.indexOf(NEWLINE); at >= 0; at = block.indexOf(NEWLINE, at + 1)) this.#newlines += 1;
  }
}

/** The first `count` of them; all where there are no more. */
export function firstOf({ first, bytes, ends }: Lines, count: number): Lines {
  return { first, bytes: bytes.subarray(0, ends[count - 1]), ends: ends.slice(0, count) };
}

const WHITE_SPACE: ReadonlySet<number> = new Set([0x20, 0x09, 0x0d, NEWLINE]);

/** Whether there is nothing but white space, as JSON has it. */
export function isBlank(bytes: Uint8Array): boolean {
  return bytes.every((byte) => WHITE_SPACE.has(byte));
}
