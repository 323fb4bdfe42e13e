// undici writes the head of a request as text and its body as bytes, corked. Past the buffers of the stream both go out as one text, which Node
// hands to the kernel without a buffer in between (docs/decisions/0054-a-request-is-written-in-one-piece.md).
import { Socket } from 'node:net';

/** With a larger body Node's own way is cheaper: it writes the body from where it lies. */
const JOINED_BYTES_MAX = 16 * 1024;
const HEAD = Symbol('head');

/** Null where it is not corked, else what is written with the next. */
type WritingSocket = Socket & { [HEAD]: string | null };

/** From now on what undici writes on this socket, head and body, is written as one. */
export function writesAsOne(socket: Socket): void {
  Object.assign(socket, { [HEAD]: null, cork, write, uncork });
}

function cork(this: WritingSocket): void {
  this[HEAD] = '';
}

function write(this: WritingSocket, chunk: string | Buffer, encoding?: BufferEncoding): boolean {
  const head = this[HEAD];
  if (head === '' && typeof chunk === 'string' && encoding === 'latin1') {
    this[HEAD] = chunk;
    return true;
  }
  if (head === null || head === '') return Socket.prototype.write.call(this, chunk, encoding);
  this[HEAD] = '';
  if (typeof chunk !== 'string' && head.length + chunk.length <= JOINED_BYTES_MAX)
    return Socket.prototype.write.call(this, head + chunk.toString('latin1'), 'latin1');
  Socket.prototype.cork.call(this);
  Socket.prototype.write.call(this, head, 'latin1');
  const more = Socket.prototype.write.call(this, chunk, encoding);
  Socket.prototype.uncork.call(this);
  return more;
}

function uncork(this: WritingSocket): void {
  const head = this[HEAD];
  this[HEAD] = null;
  if (head !== null && head !== '') Socket.prototype.write.call(this, head, 'latin1');
}
