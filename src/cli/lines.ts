// Cuts a file of one JSON value a line into pieces of bounded size, reading it once from any place, in constant memory.
// The bytes of a line go on as they are: numbers keep their digits and texts their spelling.
import { isUtf8 } from 'node:buffer';
import { Failure } from './command.ts';

export interface Piece {
  /** Where it begins and ends in the file, in bytes. */
  from: number;
  to: number;
  /** Number of its first line, from 1, and of the line behind it. */
  first_line: number;
  next_line: number;
  /** The line number of each of its values: empty lines have none. */
  line_numbers: number[];
  /** Its values with commas between them. */
  values: Buffer[];
  /** Its part of the file, whole. */
  raw: Buffer;
}

/** More than a task can be. */
const LINE_BYTES_MAX = 1_048_576;
const NEWLINE = 0x0a;
const COMMA = Buffer.from(',');
const MARK = Buffer.from([0xef, 0xbb, 0xbf]);

/** `source` gives the bytes from `from` on, which is where line `line` begins. Throws a Failure at a line that is no JSON. */
export async function* pieces(
  source: AsyncIterable<Buffer>,
  { from, line, bytes_max }: { from: number; line: number; bytes_max: number },
): AsyncGenerator<Piece, void, undefined> {
  let piece = emptyPiece(from, line);
  let raw: Buffer[] = [];
  let rest: Buffer = Buffer.alloc(0);
  const finish = (): Piece => {
    const done = { ...piece, raw: Buffer.concat(raw) };
    piece = emptyPiece(piece.to, piece.next_line);
    raw = [];
    return done;
  };
  const take = (bytes: Buffer): void => {
    const text = checked(bytes, piece.next_line, piece.to === 0);
    if (text !== null) {
      if (piece.values.length > 0) piece.values.push(COMMA);
      piece.values.push(text);
      piece.line_numbers.push(piece.next_line);
    }
    raw.push(bytes);
    piece.to += bytes.length;
    piece.next_line += 1;
  };
  for await (const block of source) {
    const bytes = rest.length === 0 ? block : Buffer.concat([rest, block]);
    let start = 0;
    for (let end = bytes.indexOf(NEWLINE); end !== -1; end = bytes.indexOf(NEWLINE, start)) {
      const next = bytes.subarray(start, end + 1);
      if (piece.values.length > 0 && piece.to - piece.from + next.length > bytes_max) yield finish();
      take(next);
      start = end + 1;
    }
    rest = bytes.subarray(start);
    if (rest.length > LINE_BYTES_MAX) throw tooLong(piece.next_line);
  }
  if (rest.length > 0) {
    if (piece.values.length > 0 && piece.to - piece.from + rest.length > bytes_max) yield finish();
    take(rest);
  }
  if (piece.to > piece.from) yield finish();
}

function emptyPiece(from: number, line: number): Piece {
  return { from, to: from, first_line: line, next_line: line, line_numbers: [], values: [], raw: Buffer.alloc(0) };
}

/** The JSON object of a line; null where it is empty. */
function checked(line: Buffer, number: number, first: boolean): Buffer | null {
  if (line.length > LINE_BYTES_MAX) throw tooLong(number);
  const bytes = first && line.subarray(0, 3).equals(MARK) ? line.subarray(3) : line;
  const text = bytes.toString().trim();
  if (text === '') return null;
  if (!isUtf8(bytes)) throw wrong(number, 'is not UTF-8');
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw wrong(number, `is not JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw wrong(number, 'is not a JSON object, as a task is');
  return bytes;
}

function wrong(line: number, what: string): Failure {
  return new Failure(`Line ${line} ${what}.`, { code: 'invalid_line', details: { line } });
}

function tooLong(line: number): Failure {
  return wrong(line, `is longer than ${LINE_BYTES_MAX} bytes`);
}
