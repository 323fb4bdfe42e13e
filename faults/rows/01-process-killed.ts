// A worker process dies with a thousand calls in flight, and another takes over.
import { startRedis } from '../../test/helpers/redis.ts';
import type { Fault } from '../lib/fault.ts';

/** Of two engines, either has about half. */
const HELD = 1_200;

export const processKilled: Fault = {
  row: 1,
  name: '',
  what: 'kill -9 of one of two processes, a thousand in flight',
  async run(scene) {
    const redis_url = `unix://${(await startRedis()).path}`;
    const [, dies] = [await scene.engine({ redis_url }), await scene.engine({ redis_url }, 'hidden')];
    await scene.driver.more(scene.some);
    const held = await scene.hold(HELD);
    const lonely = await scene.flying(dies);
    scene.begins();
    const struck_ms = Date.now();
    await dies.kill9();
    scene.over();
    const risk = (await scene.atRisk(struck_ms)) - HELD + lonely;
    held.release();
    await scene.driver.more(scene.some);
    scene.figure('in_flight', lonely);
    return scene.judge({ duplicates_max: risk });
  },
};
