// Ends a connection by RST, where that can be done.
import type { Socket } from 'node:net';

/**
 * Resets the connection, or closes it where a reset would fail. It does while a shutdown is under way: libuv says EINVAL, and Node then
 * forgets the handle without closing it, so that the loop spins on it and the process never ends.
 */
export function resetSocket(socket: Socket): void {
  const shutting = socket.writableEnded && !socket.writableFinished;
  // What is still to be written goes before the shutdown that a reset begins with.
  if (socket.connecting || shutting || socket.writableLength > 0) socket.destroy();
  else socket.resetAndDestroy();
}
