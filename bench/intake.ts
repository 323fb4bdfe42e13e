// Whether one tenant's large creates stand in the way of everybody's small requests: the slowest of many reads while
// bodies of 15 MiB come in one after another, beside the same in quiet.
import http from 'node:http';
import { type Bench, pause, type Stage } from './lib/bench.ts';
import { batchBodies } from './lib/payload.ts';
import { Helper } from './lib/process.ts';
import { percentile } from './lib/stats.ts';

const BODY_BYTES = 15 * 1_048_576;
const GAP_MS = 2;

export const intake: Bench = {
  name: 'intake',
  what: 'GET /v1/batches/{id} every 2 ms, in quiet and while one client creates batches of 15 MiB in a loop',
  async run(stage) {
    const { engine, api, smoke, receiver } = stage;
    const [id] = await api.createBatches(batchBodies(() => `${receiver.origin}/hook`, 10));
    const creator = await Helper.start(new URL('./lib/creates.process.ts', import.meta.url), [
      engine.url,
      engine.token,
      String(BODY_BYTES),
    ]);
    const duration_ms = smoke ? 1_000 : 10_000;
    try {
      await readFor(stage, `/v1/batches/${id}`, duration_ms / 5);
      const quiet = await readFor(stage, `/v1/batches/${id}`, duration_ms);
      await creator.ask({ type: 'begin' });
      const busy = await readFor(stage, `/v1/batches/${id}`, duration_ms);
      const { made } = await creator.ask<{ made: number }>({ type: 'end' });
      const [quiet_p99_ms, busy_p99_ms] = [percentile(quiet, 0.99), percentile(busy, 0.99)];
      return { creates: made, quiet_p99_ms, busy_p99_ms, busy_max_ms: Math.max(...busy), ratio: busy_p99_ms / quiet_p99_ms };
    } finally {
      await creator.stop();
    }
  },
};

/** Milliseconds that each read took; one begins every 2 ms, whatever the others do. */
async function readFor({ engine }: Stage, path: string, duration_ms: number): Promise<number[]> {
  const agent = new http.Agent({ keepAlive: true });
  const took_ms: number[] = [];
  const end_ms = performance.now() + duration_ms;
  const reads: Promise<void>[] = [];
  while (performance.now() < end_ms) {
    const began_ms = performance.now();
    reads.push(readOnce(agent, engine, path).then(() => void took_ms.push(performance.now() - began_ms)));
    await pause(GAP_MS);
  }
  await Promise.all(reads);
  agent.destroy();
  return took_ms;
}

function readOnce(agent: http.Agent, { url, token }: Stage['engine'], path: string): Promise<void> {
  return new Promise((done, failed) => {
    const request = http.get(`${url}${path}`, { agent, headers: { authorization: `Bearer ${token}` } }, (response) => {
      response.resume().once('end', done);
      if (response.statusCode !== 200) failed(new Error(`a read was answered ${response.statusCode}`));
    });
    request.once('error', failed);
  });
}
