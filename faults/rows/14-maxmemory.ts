// Redis is full: new work is refused, work that was accepted ends, what has finished makes room, and new work is taken again.
import { startRedis, until } from '../../test/helpers/redis.ts';
import type { Fault } from '../lib/fault.ts';

const ROOM_BYTES = 20 * 1_048_576;
const FILLERS = 20;
const FILLER_BYTES = 100_000;
const FILLED_MAX = 60;
const SEEN_MS_MAX = 20_000;

export const maxmemory: Fault = {
  row: 14,
  name: '',
  what: 'Redis at maxmemory, creates go on; then below what it holds',
  async run(scene) {
    const { redis, path } = await startRedis();
    const engine = await scene.engine({ redis_url: `unix://${path}`, env: { SLUICE_PARTITIONS: '2' } });
    await scene.driver.more(scene.some);
    const used = async (): Promise<number> => Number(/used_memory:(\d+)/.exec(await redis.info('memory'))?.[1]);
    scene.begins();
    scene.driver.early = true;
    await redis.config('SET', 'maxmemory', String((await used()) + ROOM_BYTES));
    const client = scene.client();
    const target = scene.slow.at('/large', { hold: true });
    const body = { tasks: Array.from({ length: FILLERS }, () => ({ target, payload: 'x'.repeat(FILLER_BYTES) })) };
    let filled = 0;
    for (let status = 201; status === 201 && filled < FILLED_MAX; ) {
      const reply = await client.ask('POST', '/v1/batches', { body });
      ({ status } = reply);
      if (status === 201) scene.driver.promised((reply.json as { id: string }).id, FILLERS);
      else scene.check(status === 503 && Number(reply.headers['retry-after']) >= 1, `refused by ${status}`);
      if (status === 201) filled += 1;
    }
    scene.check(filled > 0 && filled < FILLED_MAX, `${filled} large batches taken`);
    // From here on nothing fits, not even what the front door would let through: half of what cannot go, since its calls are held, is too much.
    await redis.config('SET', 'maxmemory', String((await used()) - (filled * FILLERS * FILLER_BYTES) / 2));
    const refused = scene.driver.refused;
    await until(() => scene.driver.refused > refused, SEEN_MS_MAX, 'creates to be refused');
    await scene.slow.heard('/large', filled * FILLERS, SEEN_MS_MAX);
    scene.slow.release('/large');
    await until(async () => (await scene.metric('retention_early_total')) > 0, SEEN_MS_MAX, 'finished batches to make room');
    scene.over();
    await scene.driver.more(scene.some);
    const oom = engine.logs().filter((line) => line.includes('OOM'));
    scene.check(oom.length === 0, `logged ${oom[0]}`);
    scene.figure('large_batches', filled);
    return scene.judge({ duplicates_max: 0, early: true });
  },
};
