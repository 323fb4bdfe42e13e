// Bytes for a socket of the front door: requests that are broken as such.
import { Agent, request as httpRequest } from 'node:http';
import net from 'node:net';
import { resetSocket } from '../../helpers/reset.ts';
import type { Dice } from './dice.ts';
import type { Fuzzed } from './requests.ts';

/** Longer than any answer takes; after that the socket is closed from here. */
const PATIENCE_MS = 400;
const ANSWERED_MS = 20;

/** What a request is on the wire, with something in it that does not belong there. */
export function brokenBytes(dice: Dice, { method, path, headers, body }: Fuzzed): Buffer[] {
  const length = body?.length ?? 0;
  const lines = Object.entries({ host: 'localhost', ...headers, ...(body === null ? {} : { 'content-length': String(length) }) });
  let head = `${method} ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`;
  let rest: Buffer = body ?? Buffer.alloc(0);
  switch (dice.int(14)) {
    case 0:
      head = head.replace('HTTP/1.1', dice.pick(['HTTP/1.0', 'HTTP/2', 'HTTP/9.9', '', 'SMTP']));
      break;
    case 1:
      head = head.replaceAll('\r\n', dice.pick(['\n', '\r', '\r\n ', '\r\n\0']));
      break;
    case 2:
      head = head.replace(
        /content-length: \d+/,
        `content-length: ${dice.pick(['-1', '1e9', '99999999999999999999', '0x10', '1, 2', ' ', '5\r\ncontent-length: 6'])}`,
      );
      break;
    case 3:
      head = head.replace('\r\n\r\n', '\r\ntransfer-encoding: chunked\r\n\r\n');
      break;
    case 4: {
      head = head.replace(/content-length: \d+/, 'transfer-encoding: chunked');
      const size = dice.pick([rest.length.toString(16), 'zz', 'ffffffffffffffff', '-1', `${rest.length.toString(16)};ext=1`, '0']);
      rest = Buffer.concat([Buffer.from(`${size}\r\n`), rest, Buffer.from(dice.pick(['\r\n0\r\n\r\n', '\r\n', '', '0\r\nx: y\r\n\r\n']))]);
      break;
    }
    case 5:
      head = head.replace('\r\n\r\n', `\r\n${`h: ${'v'.repeat(60)}\r\n`.repeat(dice.int(600))}\r\n`);
      break;
    case 6:
      head = head.replace('\r\n\r\n', `\r\nx: ${'v'.repeat(dice.int(60_000))}\r\n\r\n`);
      break;
    case 7:
      head = head.replace(
        '\r\n\r\n',
        `\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: ${dice.pick(['13', '8', ''])}\r\nsec-websocket-key: ${dice.pick(['dGhlIHNhbXBsZSBub25jZQ==', 'x', ''])}\r\n\r\n`,
      );
      rest = Buffer.concat([rest, dice.bytes(dice.int(300))]);
      break;
    case 8:
      return [dice.bytes(dice.int(2_000))];
    case 9: {
      const bytes = Buffer.concat([Buffer.from(head), rest]);
      for (let i = 1 + dice.count(8); i > 0; i--) bytes[dice.int(bytes.length)] = dice.int(256);
      return [bytes];
    }
    case 10: {
      const bytes = Buffer.concat([Buffer.from(head), rest]);
      return Array.from({ length: 1 + dice.int(12) }, () => bytes);
    }
    case 11:
      head = head.replace('host: localhost\r\n', '');
      break;
    case 12:
      rest = rest.subarray(0, dice.int(rest.length + 1));
      break;
    default: {
      const bytes = Buffer.concat([Buffer.from(head), rest]);
      const at = dice.int(bytes.length);
      return [bytes.subarray(0, at), bytes.subarray(at)];
    }
  }
  return [Buffer.from(head, 'latin1'), rest];
}

/** Writes the pieces, with a pause between, and at times nothing more of the last; everything that came until either side closed. */
export function sendBytes(dice: Dice, port: number, pieces: readonly Buffer[]): Promise<Buffer> {
  return new Promise((resolve) => {
    const came: Buffer[] = [];
    const socket = net.connect(port, '127.0.0.1');
    const reset = dice.chance(0.1);
    let ended = false;
    // Once: what is being reset is not to be destroyed as well.
    const end = (how: (socket: net.Socket) => void): void => {
      if (!ended) how(socket);
      ended = true;
    };
    const close = (): void => end(() => socket.destroy());
    const timer = setTimeout(() => (reset ? end(resetSocket) : close()), dice.chance(0.3) ? dice.int(20) : PATIENCE_MS);
    socket.on('data', (chunk) => {
      came.push(chunk);
      // It has answered; what else it has to say comes with it.
      setTimeout(close, ANSWERED_MS);
    });
    socket.on('error', close);
    socket.on('connect', () => {
      for (const piece of pieces) if (!socket.destroyed) socket.write(piece);
      if (dice.chance(0.2)) socket.end();
    });
    socket.on('close', () => {
      clearTimeout(timer);
      resolve(Buffer.concat(came));
    });
  });
}

const agent = new Agent({ keepAlive: true });

/** A whole request; null where the connection broke before its answer. */
export function sendWhole(
  port: number,
  { method, path, headers, body }: Fuzzed,
): Promise<{ status: number; type: string; retry_after: string | undefined; body: Buffer } | null> {
  return new Promise((resolve, reject) => {
    const length = body === null ? {} : { 'content-length': String(body.length) };
    const request = httpRequest({ port, host: '127.0.0.1', method, path, headers: { ...headers, ...length }, agent }, (response) => {
      const came: Buffer[] = [];
      response.on('data', (chunk: Buffer) => {
        came.push(chunk);
        // A stream has no end of its own.
        if (response.headers['content-type']?.startsWith('text/event-stream')) request.destroy();
      });
      response.on('close', () =>
        resolve({
          status: response.statusCode ?? 0,
          type: response.headers['content-type'] ?? '',
          retry_after: response.headers['retry-after'],
          body: Buffer.concat(came),
        }),
      );
    });
    request.on('upgrade', (_response, socket) => {
      socket.destroy();
      resolve(null);
    });
    request.setTimeout(20_000, () => request.destroy(new Error('no answer within 20 s')));
    request.on('error', (error: NodeJS.ErrnoException) => (/no answer/.test(error.message) ? reject(error) : resolve(null)));
    request.end(body ?? undefined);
  });
}
