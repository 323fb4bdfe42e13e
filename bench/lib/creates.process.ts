// Creates large batches one after another, in a process of its own, until it is told to stop; answers how many it made.
import { batchBody, task } from './payload.ts';

const [, , url = '', token = '', bytes = '0'] = process.argv;
const execute_after = new Date(Date.now() + 3_600_000).toISOString();
const one = JSON.stringify(task('https://example.com/hook', 0, { execute_after })).length + 1;
const body = batchBody(
  Array.from({ length: Math.floor(Number(bytes) / one) }, (_, i) => task('https://example.com/hook', i, { execute_after })),
);

let running = false;
let made = 0;

async function createOn(): Promise<void> {
  while (running) {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const response = await fetch(`${url}/v1/batches`, { method: 'POST', headers, body });
    const text = await response.text();
    if (response.status !== 201) throw new Error(`a create was answered ${response.status}: ${text.slice(0, 300)}`);
    made += 1;
  }
}

let creating: Promise<void> = Promise.resolve();
process.on('message', (message: { type: 'begin' | 'end' }) => {
  running = message.type === 'begin';
  if (running) {
    made = 0;
    creating = createOn();
    process.send?.({ made: 0 });
  } else void creating.then(() => process.send?.({ made }));
});
process.send?.({ type: 'ready', port: 0 });
