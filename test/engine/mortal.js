// Loaded in front of an engine by a test: ends a thread that calls, once it sees the file named by MORTAL_FILE, as a crash
// in native code or a bug would. What the file says tells how; with `stillborn` the next thread fails before it has begun, and with a
// path only one that has called that dies.
// The product itself has no such door.
import { subscribe } from 'node:diagnostics_channel';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';

const LOOK_MS = 20;
const file = process.env['MORTAL_FILE'];

if (!isMainThread && file !== undefined) {
  const stillborn = `${file}.stillborn`;
  if (existsSync(stillborn)) {
    rmSync(stillborn);
    throw new Error('stillborn');
  }
  // Threads of other kinds see the file too, and live on.
  const called = new Set();
  subscribe('undici:client:sendHeaders', (message) => {
    const { request } = /** @type {{ request: { path: string } }} */ (message);
    called.add(request.path);
  });
  setInterval(() => {
    const death = called.size === 0 ? '' : textOf(file);
    if (death === '') return;
    const path = /\/\S*/.exec(death)?.[0];
    if (path !== undefined && !called.has(path)) return;
    rmSync(file);
    if (death.includes('stillborn')) writeFileSync(stillborn, '');
    if (death.includes('throw')) throw new Error('mortal');
    process.exit(3);
  }, LOOK_MS).unref();
}

/** Empty where there is none, or not yet. */
function textOf(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
