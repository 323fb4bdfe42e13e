// An answer of blocks goes at the pace of its reader.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import net from 'node:net';
import { after, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { beginBlocks } from '../../src/http/answer.ts';
import { BlockWriter } from '../../src/http/block-writer.ts';
import { OtherCork } from '../../src/http/cork.ts';
import { type HttpResponse, listen, uws } from '../../src/http/uws.ts';

const BLOCK_BYTES = 10_000_000;
/** What the kernel keeps at most for both ends of a connection, and a slice. */
const UNREAD_BYTES_MAX = kernelBytes('tcp_wmem') + kernelBytes('tcp_rmem') + 1_000_000;
const BLOCKS = Math.ceil((2 * UNREAD_BYTES_MAX) / BLOCK_BYTES);

function kernelBytes(setting: string): number {
  const file = `/proc/sys/net/ipv4/${setting}`;
  return existsSync(file) ? Number(readFileSync(file, 'utf8').trim().split(/\s+/).at(-1)) : 16_000_000;
}

test('of blocks of 10 MB a slow reader has what was written, but for what the kernel holds', async () => {
  const block = Buffer.alloc(BLOCK_BYTES, 'x');
  let read = 0;
  let unread_max = 0;
  const cork = new OtherCork();
  await cork.open();
  after(() => cork.close());
  const app = uws.App().get('/*', (res) => {
    const writer = new BlockWriter(res, cork);
    res.onAborted(() => writer.gone());
    beginBlocks(res, 'application/json', {});
    void (async () => {
      for (let n = 0; n < BLOCKS && (await writer.write(block)); n++) unread_max = Math.max(unread_max, writer.bytes_out - read);
      assert.ok(!writer.over);
      writer.end();
      assert.ok(writer.over);
    })();
  });
  const listening = await listen(app, '127.0.0.1', 0);
  assert.ok(listening !== false);
  after(() => app.close());
  const client = net.connect(uws.us_socket_local_port(listening), '127.0.0.1');
  client.write('GET / HTTP/1.1\r\nHost: sluice\r\nConnection: close\r\n\r\n');
  let last = '';
  client.on('data', (part: Buffer) => {
    read += part.length;
    last = part.subarray(-5).toString('latin1');
    client.pause();
    if (last === '0\r\n\r\n') client.destroy();
    else setTimeout(() => client.resume(), 1);
  });
  await once(client, 'close');
  assert.equal(last, '0\r\n\r\n');
  assert.ok(read > BLOCKS * BLOCK_BYTES);
  assert.ok(unread_max < UNREAD_BYTES_MAX, `${unread_max} bytes were written ahead of their reader`);
});

test('where a socket takes little at a time, little waits for it', async () => {
  const ROOM_BYTES = 4_096;
  const BYTES = 5_000_000;
  let room = ROOM_BYTES;
  let waiting = 0;
  let waiting_max = 0;
  let sent = 0;
  let wake = (): unknown => null;
  // As the native code does: what waits goes first, with the next write only, and whatever does not fit waits.
  const socket = {
    onWritable: (handler: () => unknown) => {
      wake = handler;
    },
    write: (slice: Buffer) => {
      waiting += slice.length;
      const goes = Math.min(room, waiting);
      [room, waiting, sent] = [room - goes, waiting - goes, sent + goes];
      waiting_max = Math.max(waiting_max, waiting);
      return waiting === 0;
    },
    cork: (run: () => void) => run(),
    end: () => {},
  } as unknown as HttpResponse;
  const writer = new BlockWriter(socket, new OtherCork());
  const written = writer.write(Buffer.alloc(BYTES));
  let done = false;
  void written.then(() => {
    done = true;
  });
  while (!done) {
    room = ROOM_BYTES;
    wake();
    await setImmediate();
  }
  assert.equal(await written, true);
  assert.deepEqual([writer.bytes_out, sent + waiting], [BYTES, BYTES]);
  assert.ok(waiting_max <= 262_144, `${waiting_max} bytes waited`);
});
