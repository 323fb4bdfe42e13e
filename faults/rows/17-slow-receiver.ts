// Ten thousand tasks for a receiver that answers nothing for seconds: tasks for others go on as before.
import { startRedis } from '../../test/helpers/redis.ts';
import type { Fault } from '../lib/fault.ts';

const SLOW = 10_000;
const EACH = 1_000;
const RATIO_MAX = 2;
/** Below this nobody minds the ratio. */
const FAST_MS = 100;

export const slowReceiver: Fault = {
  row: 17,
  name: '',
  what: '10,000 tasks for a receiver that does not answer, others go on',
  async run(scene) {
    const redis_url = `unix://${(await startRedis()).path}`;
    await scene.engine({ redis_url });
    await scene.engine({ redis_url });
    await scene.driver.more(scene.some);
    const before_ms = scene.waited_ms(0.99);
    const target = scene.slow.at('/slow', { hold: true });
    scene.begins();
    for (let i = 0; i < SLOW; i += EACH) await scene.driver.batch(Array.from({ length: EACH }, () => ({ target })));
    await scene.slow.heard('/slow', EACH);
    const from_ms = Date.now();
    await scene.driver.more(scene.some);
    const beside_ms = scene.waited_ms(0.99, from_ms);
    scene.figure('places_of_the_slow', scene.slow.held('/slow').length);
    scene.slow.release('/slow');
    scene.over();
    scene.figure('p99_ms_before', before_ms);
    scene.figure('p99_ms_beside', beside_ms);
    scene.check(beside_ms <= Math.max(FAST_MS, RATIO_MAX * before_ms), `p99 ${beside_ms} ms where it was ${before_ms} ms`);
    return scene.judge({ duplicates_max: 0 });
  },
};
