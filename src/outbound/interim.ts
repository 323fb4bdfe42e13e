// `100 Continue` comes from servers that nobody asked for it, before the answer itself. undici takes it for an error and closes the
// connection. So it is left out of what a connection brings while the head of an answer is awaited; any other 1xx is undici's.
import type { Socket } from 'node:net';

/** Who uses a connection. */
export interface Awaiting {
  /** A request was sent, and no line of its answer has come but of interim ones. */
  readonly awaits_head: boolean;
}

const HEAD_BYTES_MAX = 16 * 1024;
/** Of the protocol's version no more than the first digit. */
const BEGINS = Buffer.from('HTTP/1.');
const STATUS_AT = BEGINS.length + 2;

/** From now on nobody who reads this socket sees a `100 Continue`. */
export function withoutContinue(socket: Socket, by: Awaiting): void {
  const read = socket.read;
  /** The beginning of one. */
  let begun: Buffer | null = null;
  socket.read = function readOn(size?: number) {
    for (;;) {
      const chunk = read.call(this, size) as Buffer | null;
      if (chunk === null || (begun === null && !(by.awaits_head && isContinue(chunk)))) return chunk;
      let left = begun === null ? chunk : Buffer.concat([begun, chunk]);
      begun = null;
      while (isContinue(left)) {
        const end = left.indexOf('\r\n\r\n');
        if (end < 0 && left.length <= HEAD_BYTES_MAX) begun = left;
        if (end < 0) break;
        left = left.subarray(end + 4);
      }
      if (begun === null && left.length > 0) return left;
    }
  };
}

function isContinue(chunk: Buffer): boolean {
  if (chunk[STATUS_AT] !== 0x31 || chunk[STATUS_AT + 1] !== 0x30 || chunk[STATUS_AT + 2] !== 0x30) return false;
  return chunk.subarray(0, BEGINS.length).equals(BEGINS);
}
