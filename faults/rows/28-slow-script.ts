// Redis is held up for seconds, by a sleep and by somebody's script that runs for long: it answers nobody, then BUSY.
import { startRedis } from '../../test/helpers/redis.ts';
import type { Fault } from '../lib/fault.ts';

const HELD = 1_000;
const TIMES = 3;
const SLEEP_S = 2;
/** Scripts have no clock of their own: how long a loop takes is measured before. */
const SCRIPT = 'for i = 1, tonumber(ARGV[1]) do local x = i % 7 end return 1';
const TRIED = 5_000_000;

export const slowScript: Fault = {
  row: 28,
  name: '',
  what: 'DEBUG SLEEP 2, and a script of 2 s that makes Redis say BUSY',
  async run(scene) {
    const { redis, path } = await startRedis({ args: ['--enable-debug-command', 'yes', '--busy-reply-threshold', '200'] });
    const options = { redis_url: `unix://${path}` };
    const engines = [await scene.engine(options), await scene.engine(options)];
    await scene.driver.more(scene.some);
    const held = await scene.hold(HELD);
    const tried_ms = performance.now();
    await redis.eval(SCRIPT, 0, TRIED);
    const loops = Math.round((TRIED * SLEEP_S * 1_000) / (performance.now() - tried_ms));
    scene.begins();
    for (let time = 0; time < TIMES; time++) {
      await redis.call('DEBUG', 'SLEEP', SLEEP_S);
      if (time === 0) held.release();
      await scene.driver.more(scene.some / 4);
      await redis.eval(SCRIPT, 0, loops);
      await scene.driver.more(scene.some / 4);
    }
    scene.over();
    await scene.driver.more(scene.some);
    const crashed = engines.flatMap((engine) => engine.logs()).filter((line) => line.includes('"level":"fatal"'));
    scene.check(crashed.length === 0, `logged ${crashed[0]}`);
    return scene.judge({ duplicates_max: 0 });
  },
};
