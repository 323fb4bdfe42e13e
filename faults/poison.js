// Loaded in front of an engine: a thread that reads an answer with this header ends at once, as a bug in a parser would end it.
import { subscribe } from 'node:diagnostics_channel';
import { isMainThread } from 'node:worker_threads';

if (!isMainThread) {
  subscribe('undici:request:headers', (message) => {
    const { response } = /** @type {{ response: { headers: Buffer[] } }} */ (message);
    if (response.headers.some((text) => text.toString().toLowerCase() === 'x-poison')) process.exit(3);
  });
}
