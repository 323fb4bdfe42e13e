// A page of an account's batches, which is gathered from every partition: what it takes where there are few, and where there are as many as there may be.
import { request } from 'undici';
import { Api } from './lib/api.ts';
import type { Bench, Figures, Stage } from './lib/bench.ts';
import { Engine } from './lib/engine.ts';
import { batchBodies } from './lib/payload.ts';
import { median } from './lib/stats.ts';

const PARTITIONS = [16, 256, 1_024];
const PAGE = 20;

export const listPage: Bench = {
  name: 'list',
  once: true,
  what: `GET /v1/batches, the newest ${PAGE} of 2,000, one after the other: time and CPU of a page, by the number of partitions`,
  async run(stage) {
    const figures: Figures = {};
    for (const partitions of stage.smoke ? PARTITIONS.slice(0, 1) : PARTITIONS) {
      for (const [name, value] of Object.entries(await pages(stage, partitions))) figures[`${name}_${partitions}`] = value;
    }
    return figures;
  },
};

async function pages({ entry, receiver, smoke }: Stage, partitions: number): Promise<Record<string, number>> {
  const engine = await Engine.start({ entry, env: { SLUICE_PARTITIONS: String(partitions) } });
  const api = new Api(engine, { patient: smoke });
  try {
    const batches = smoke ? 40 : 2_000;
    await api.completed(
      await api.createBatches(Array.from({ length: batches }, () => batchBodies(() => `${receiver.origin}/hook`, 1)).flat()),
    );
    const page = async (): Promise<number> => {
      const from_ms = performance.now();
      const { statusCode, body } = await request(`${engine.url}/v1/batches?limit=${PAGE}`, {
        headers: { authorization: `Bearer ${engine.token}` },
      });
      const { batches: found } = (await body.json()) as { batches: unknown[] };
      if (statusCode !== 200 || found.length !== PAGE) throw new Error(`a page of ${found?.length} batches (${statusCode})`);
      return performance.now() - from_ms;
    };
    const count = smoke ? 5 : 200;
    for (let i = 0; i < count; i++) await page();
    const from = engine.cpu_s();
    const took_ms: number[] = [];
    for (let i = 0; i < count; i++) took_ms.push(await page());
    const to = engine.cpu_s();
    const each = (what: 'engine' | 'redis'): number => ((to[what] - from[what]) * 1e6) / count;
    return { page_ms: median(took_ms), engine_us: each('engine'), redis_us: each('redis') };
  } finally {
    await api.close();
    await engine.stop();
  }
}
