// The process that takes requests dies while batches of ten thousand tasks are created: each is there whole, or not at all, and its
// key makes one.
import { setTimeout as sleep } from 'node:timers/promises';
import { startRedis } from '../../test/helpers/redis.ts';
import type { Fault } from '../lib/fault.ts';

const TASKS = 10_000;
/** Creates of this size take some hundred milliseconds each. */
const KILL_MS_MAX = 1_500;

export const apiKilled: Fault = {
  row: 3,
  name: '',
  what: 'kill -9 of the API while batches of 10,000 tasks are created',
  async run(scene) {
    const redis_url = `unix://${(await startRedis()).path}`;
    const [kills, batches] = scene.quick ? [2, 2] : [6, 8];
    const target = scene.receiver.at('/large');
    const tasks = Array.from({ length: TASKS }, (_, n) => ({ target, payload: n }));
    await scene.engine({ redis_url });
    const made = Promise.all(Array.from({ length: batches }, () => scene.driver.batch(tasks)));
    let risk = 0;
    for (let kill = 0; kill < kills; kill++) {
      await sleep(scene.chance.int(0, KILL_MS_MAX));
      const [dies] = scene.engines;
      const struck_ms = Date.now();
      if (kill === 0) scene.begins();
      if (dies !== undefined) {
        scene.forget(dies);
        await dies.kill9();
      }
      risk += await scene.atRisk(struck_ms);
      await scene.engine({ redis_url });
    }
    scene.over();
    const ids = await made;
    const { total } = await scene.client().batches('?limit=1');
    scene.check(new Set(ids).size === batches && total === batches, `${total} batches of ${batches} keys`);
    scene.figure('kills', kills);
    scene.figure('batches', total ?? 0);
    return scene.judge({ duplicates_max: risk });
  },
};
