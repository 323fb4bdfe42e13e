// The clock of Redis, which is the only one that decides anything, jumps back and forth by an hour and by seconds.
import { startKillableRedis } from '../../test/engine/killable-redis.ts';
import { makeClock } from '../lib/clock.ts';
import type { Fault } from '../lib/fault.ts';
import { LIMIT, startLimited } from '../lib/limited.ts';

const HELD = 1_000;
const S = 1_000;
const HOUR = 3_600 * S;
/** Offsets from real time, one after another. */
const JUMPS = [-5 * S, 0, 5 * S, -HOUR, 0, HOUR, 0];
const EACH_MS = 4_000;
const LIMITED_S = 20;

export const clockJumps: Fault = {
  row: 15,
  name: '',
  what: "Redis's clock jumps by 5 s and by an hour, back and forth",
  async run(scene) {
    const clock = makeClock();
    const redis = await startKillableRedis({ keeps: 'second', env: clock.env });
    await scene.engine({ redis_url: redis.url });
    await scene.engine({ redis_url: redis.url });
    await scene.driver.more(scene.some);
    const held = await scene.hold(HELD);
    const limited = await startLimited(scene, LIMITED_S);
    scene.begins();
    for (const [i, offset_ms] of JUMPS.entries()) {
      clock.set(offset_ms);
      const [seconds = ''] = await redis.redis.time();
      scene.check(Math.abs(Number(seconds) * 1_000 - Date.now() - offset_ms) < 3_000, 'the clock of Redis did not follow');
      if (i === 0) held.release();
      await scene.driver.more(scene.some / 4);
      await scene.lasts(EACH_MS);
    }
    scene.over();
    await scene.driver.more(scene.some);
    await scene.quiet();
    const most = limited.mostInASecond();
    scene.figure('most_in_a_second', most);
    // Each jump forward may let one more window go.
    scene.check(most <= 2 * LIMIT, `${most} in a second where ${LIMIT} may be`);
    return scene.judge({ duplicates_max: 0 });
  },
};
