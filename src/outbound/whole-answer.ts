// An answer that comes in one piece, and says no more than most do, is read here (docs/decisions/0068-a-whole-answer-is-read-at-once.md). Whatever is
// out of the ordinary is left to undici's parser: an answer in several pieces, or without a length, or that closes or upgrades its connection, and
// all that it may refuse.
import { digits, HEADERS_READ, named } from './answer.ts';
import { ANSWER_HEAD_BYTES_MAX } from './call.ts';

const BEGINS = Buffer.from('HTTP/1.1 ');
const NO_CONTENT = 204;
const CR = 0x0d;
const LF = 0x0a;
const SPACE = 0x20;
const COLON = 0x3a;

/** How the answer ends, and its connection. */
const HEADERS_OF_ENDS = ['upgrade', 'connection', 'keep-alive', 'proxy-connection', 'transfer-encoding'] as const;
type Name = (typeof HEADERS_READ)[number] | (typeof HEADERS_OF_ENDS)[number];
/** What is known of names that matter, by their length. */
const KNOWN: { name: Name; bytes: Buffer }[][] = [];
for (const name of [...HEADERS_READ, ...HEADERS_OF_ENDS]) {
  KNOWN[name.length] = [...(KNOWN[name.length] ?? []), { name, bytes: Buffer.from(name) }];
}
const NONE: never[] = [];
const KEEP_ALIVE = 'keep-alive';

/** By byte: whether it may be in a name, of those that names have. */
const OF_NAME = bytesThat((byte) => /[\w-]/.test(String.fromCharCode(byte)));
/** Whether it may be in a value. */
const OF_VALUE = bytesThat((byte) => byte >= SPACE && byte !== 0x7f);

export interface WholeAnswer {
  readonly status: number;
  /** Names and values in turns, of those that matter. Values are views of what was read, as `body` is. */
  readonly headers: Buffer[];
  /** null where it is empty. */
  body: Buffer | null;
  /** What the server says of how long it keeps the connection; '' where nothing. */
  keep_alive: string;
  /** Bytes of body that were announced; -1 where none were. */
  content_length: number;
}

/** The answer that `bytes` are, to the byte; null where they are anything but one as most are. */
export function wholeAnswer(bytes: Buffer): WholeAnswer | null {
  // No head among so few bytes is too long.
  const status = bytes.length > ANSWER_HEAD_BYTES_MAX ? -1 : statusOf(bytes);
  if (status < 0) return null;
  const answer: WholeAnswer = { status, headers: [], body: null, keep_alive: '', content_length: -1 };
  const body_at = readHeaders(bytes, lineEnd(bytes, BEGINS.length + 4), answer);
  if (body_at < 0 || bytes.length - body_at !== lengthOf(answer)) return null;
  if (body_at < bytes.length) answer.body = bytes.subarray(body_at);
  return answer;
}

/** Bytes of body; -1 where that cannot be told by the head. */
function lengthOf({ status, content_length }: WholeAnswer): number {
  if (status !== NO_CONTENT) return content_length;
  return content_length > 0 ? -1 : 0;
}

/** -1 where it is interim (1xx), has no body whatever its length says (304), or is none. */
function statusOf(bytes: Buffer): number {
  for (let i = 0; i < BEGINS.length; i++) if (bytes[i] !== BEGINS[i]) return -1;
  const status = digits(bytes, BEGINS.length, BEGINS.length + 3);
  return status >= 200 && status <= 599 && status !== 304 && bytes[BEGINS.length + 3] === SPACE ? status : -1;
}

/** `at`: where the first begins. Returns where the body begins, -1 where a header is out of the ordinary. */
function readHeaders(bytes: Buffer, at: number, answer: WholeAnswer): number {
  let from = at;
  while (from > 0) {
    if (bytes[from] === CR) return bytes[from + 1] === LF ? from + 2 : -1;
    let colon = from;
    while (OF_NAME[bytes[colon] ?? 0] === 1) colon += 1;
    if (colon === from || bytes[colon] !== COLON) return -1;
    const value_from = bytes[colon + 1] === SPACE ? colon + 2 : colon + 1;
    const next = lineEnd(bytes, value_from);
    const value_to = next - 2;
    if (value_from >= value_to || bytes[value_from] === SPACE || bytes[value_to - 1] === SPACE) return -1;
    for (const known of KNOWN[colon - from] ?? NONE) {
      if (!named(bytes, known.name, from)) continue;
      const value = bytes.subarray(value_from, value_to);
      if (!isOrdinary(known.name, value, answer)) return -1;
      answer.headers.push(known.bytes, value);
    }
    from = next;
  }
  return -1;
}

/** Not so where it changes how the answer or the connection ends. */
function isOrdinary(name: Name, value: Buffer, answer: WholeAnswer): boolean {
  switch (name) {
    case 'content-length':
      if (answer.content_length >= 0) return false;
      answer.content_length = digits(value);
      return answer.content_length >= 0;
    case 'keep-alive':
      answer.keep_alive += value.toString('latin1');
      return true;
    case 'connection':
      return value.length === KEEP_ALIVE.length && named(value, KEEP_ALIVE);
    case 'upgrade':
    case 'proxy-connection':
    case 'transfer-encoding':
      return false;
    default:
      return true;
  }
}

/** Behind the end of the line, of which everything from `from` on may be in a value; -1 where it has none, or anything else. */
function lineEnd(bytes: Buffer, from: number): number {
  let at = from;
  while (OF_VALUE[bytes[at] ?? 0] === 1) at += 1;
  return bytes[at] === CR && bytes[at + 1] === LF ? at + 2 : -1;
}

function bytesThat(may: (byte: number) => boolean): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) => Number(may(byte)));
}
