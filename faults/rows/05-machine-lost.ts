// The machine of Redis is lost: what its file had not on the disk is gone. The file is cut to what it was a second before.
import { statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { type KillableRedis, startKillableRedis } from '../../test/engine/killable-redis.ts';
import type { Fault } from '../lib/fault.ts';

const HELD = 1_000;
const LOST_MS = 1_000;
const LOOK_MS = 20;

export const machineLost: Fault = {
  row: 5,
  name: '',
  what: 'kill -9 of Redis, the last second of its file is gone',
  loses: true,
  async run(scene) {
    const redis = await startKillableRedis({ keeps: 'second', args: ['--auto-aof-rewrite-percentage', '0'] });
    const sizes = watchSize(redis);
    await scene.engine({ redis_url: redis.url });
    await scene.driver.more(scene.some);
    const held = await scene.hold(HELD);
    await scene.lasts(LOST_MS);
    await scene.driver.more(scene.some);
    scene.begins();
    const died_ms = Date.now();
    const before = [...scene.driver.books.values()];
    const accepted_late = before.filter(({ at_ms }) => at_ms > died_ms - LOST_MS - 2 * LOOK_MS).reduce((sum, { tasks }) => sum + tasks, 0);
    await redis.kill9();
    sizes.stop();
    const bytes = sizes.cut(died_ms - LOST_MS);
    held.release();
    await redis.start();
    scene.over();
    // What was called in the lost second is called again, and so is what was claimed in it.
    const risk = scene.calls().filter((call) => call.at_ms > died_ms - LOST_MS - UNTOLD_MS || !call.answered).length + HELD;
    await scene.driver.more(scene.some);
    scene.figure('bytes_cut', bytes);
    scene.figure('accepted_in_that_second', accepted_late);
    return scene.judge({ duplicates_max: risk, lost_max: accepted_late, forgets: true });
  },
};

/** An outcome may have been waiting this long. */
const UNTOLD_MS = 1_000;

function watchSize({ dir }: KillableRedis): { stop: () => void; cut: (at_ms: number) => number } {
  const file = join(dir, 'appendonlydir', 'appendonly.aof.1.incr.aof');
  const sizes: { at_ms: number; bytes: number }[] = [];
  const look = (): void => void sizes.push({ at_ms: Date.now(), bytes: statSync(file).size });
  look();
  const timer = setInterval(look, LOOK_MS);
  return {
    stop: () => clearInterval(timer),
    cut(at_ms) {
      const { bytes } = sizes.findLast((one) => one.at_ms <= at_ms) ?? { bytes: 0 };
      const gone = statSync(file).size - bytes;
      truncateSync(file, bytes);
      return gone;
    },
  };
}
