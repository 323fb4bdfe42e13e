// Loaded in front of an engine by a test: puts down when each request is written, which is the moment that limits hold for. On
// a busy machine the way to the receiver takes long, now and then, and its log alone would tell of starts that never were.
import { subscribe } from 'node:diagnostics_channel';
import { openSync, writeSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

const path = process.env['WRITTEN_FILE'];

if (!isMainThread && path !== undefined) {
  const file = openSync(path, 'a');
  subscribe('undici:client:sendHeaders', (message) => {
    const { headers } = /** @type {{ headers: string }} */ (message);
    const id = /^webhook-id: (.*)$/im.exec(headers)?.[1];
    const attempt = /^x-sluice-attempt: (.*)$/im.exec(headers)?.[1];
    // At once, so that an engine that is killed has said what it did.
    writeSync(file, `${id} ${attempt} ${Date.now()}\n`);
  });
}
