// An answer of blocks goes at the pace of its reader.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import net from 'node:net';
import { after, test } from 'node:test';
import { beginBlocks } from '../../src/http/answer.ts';
import { BlockWriter } from '../../src/http/block-writer.ts';
import { listen, uws } from '../../src/http/uws.ts';

const BLOCK_BYTES = 10_000_000;
const BLOCKS = 8;
/** What the kernel keeps for both ends of a connection of this machine, and a slice. */
const UNREAD_BYTES_MAX = 16_000_000;

test('of blocks of 10 MB a slow reader has what was written, but for what the kernel holds', async () => {
  const block = Buffer.alloc(BLOCK_BYTES, 'x');
  let read = 0;
  let unread_max = 0;
  const app = uws.App().get('/*', (res) => {
    const writer = new BlockWriter(res);
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
