// Redis dies and comes back with its append-only file, synced once a second: what it had written, the machine still has.
import { startKillableRedis } from '../../test/engine/killable-redis.ts';
import type { Fault } from '../lib/fault.ts';

const HELD = 1_000;
const AWAY_MS = 1_000;

export const redisRestart: Fault = {
  row: 4,
  name: '',
  what: 'kill -9 of Redis, back after a second with its file',
  async run(scene) {
    const redis = await startKillableRedis({ keeps: 'second' });
    await scene.engine({ redis_url: redis.url });
    await scene.engine({ redis_url: redis.url });
    await scene.driver.more(scene.some);
    const held = await scene.hold(HELD);
    scene.begins();
    await redis.kill9();
    const risk = await scene.atRisk();
    held.release();
    await scene.lasts(AWAY_MS);
    await redis.start();
    scene.over();
    await scene.driver.more(scene.some);
    return scene.judge({ duplicates_max: risk });
  },
};
