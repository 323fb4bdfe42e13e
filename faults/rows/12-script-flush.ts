// The cache of scripts is emptied again and again under load: nobody notices.
import { startRedis } from '../../test/helpers/redis.ts';
import type { Fault } from '../lib/fault.ts';

const EACH_MS = 1_000;
const EACH_QUICK_MS = 100;
const TASKS_QUICK = 2_000;
const TASKS = 20_000;

export const scriptFlush: Fault = {
  row: 12,
  name: '',
  what: 'SCRIPT FLUSH each second',
  async run(scene) {
    const { redis, path } = await startRedis();
    const engines = [await scene.engine({ redis_url: `unix://${path}` }), await scene.engine({ redis_url: `unix://${path}` })];
    await scene.driver.more(scene.some);
    scene.begins();
    let flushes = 0;
    const flush = (): void => {
      flushes += 1;
      redis.script('FLUSH').catch(() => {});
    };
    const timer = setInterval(flush, scene.quick ? EACH_QUICK_MS : EACH_MS);
    await scene.driver.more(scene.quick ? TASKS_QUICK : TASKS).finally(() => clearInterval(timer));
    scene.over();
    scene.figure('flushes', flushes);
    const said = engines.flatMap((engine) => engine.logs()).filter((line) => line.includes('NOSCRIPT'));
    scene.check(said.length === 0, `logged ${said[0]}`);
    scene.check(scene.driver.refused === 0, `${scene.driver.refused} requests were refused`);
    return scene.judge({ duplicates_max: 0 });
  },
};
