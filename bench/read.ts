// Asking for one batch, beside the least that such an answer takes: a bare uWebSockets.js app and one HGETALL.
import type { Bench } from './lib/bench.ts';
import { load } from './lib/load.ts';
import { batchBodies } from './lib/payload.ts';
import { Helper } from './lib/process.ts';
import { median } from './lib/stats.ts';

export const readBatch: Bench = {
  name: 'read',
  what: 'GET /v1/batches/{id} over 64 connections; beside it bare uWebSockets.js and one HGETALL',
  async run({ engine, receiver, api, smoke }) {
    const time = { duration_s: smoke ? 1 : 3 };
    const [id] = await api.createBatches(batchBodies(() => `${receiver.origin}/hook`, 100));
    const bare = await Helper.start(new URL('./lib/read.process.ts', import.meta.url), [engine.socket]);
    const asked = { url: `${engine.url}/v1/batches/${id}`, method: 'GET', headers: { authorization: `Bearer ${engine.token}` } } as const;
    const least = { url: `http://127.0.0.1:${bare.port}/`, method: 'GET', headers: asked.headers } as const;
    try {
      const ours: number[] = [];
      const bares: number[] = [];
      for (let i = 0; i < (smoke ? 1 : 3); i++) {
        bares.push((await load(least, time)).requests_s);
        ours.push((await load(asked, time)).requests_s);
      }
      return {
        requests_per_s: median(ours),
        bare_requests_per_s: median(bares),
        ratio_to_bare: median(ours.map((rate, i) => rate / (bares[i] ?? Number.NaN))),
      };
    } finally {
      await bare.stop();
    }
  },
};
