// Redis stands still for ten seconds and goes on: nobody was dead, so nobody is taken for dead, and nothing is called twice.
import { startKillableRedis } from '../../test/engine/killable-redis.ts';
import type { Fault } from '../lib/fault.ts';

const HELD = 1_000;
const FROZEN_MS = 10_000;
/** A call to Redis is given up after 2 s; the rest is for a busy machine. */
const REFUSED_MS_MAX = 5_000;

export const redisFrozen: Fault = {
  row: 8,
  name: '',
  what: 'Redis stands still for 10 s, a thousand in flight',
  async run(scene) {
    const redis = await startKillableRedis({ keeps: 'second' });
    const engines = [await scene.engine({ redis_url: redis.url }), await scene.engine({ redis_url: redis.url })];
    await scene.driver.more(scene.some);
    const held = await scene.hold(HELD);
    scene.begins();
    redis.freeze();
    held.release();
    const asked_ms = performance.now();
    const replies = await Promise.all(engines.map((engine) => scene.client(engine).ask('GET', '/v1/batches')));
    const refused_ms = performance.now() - asked_ms;
    scene.check(
      replies.every(({ status }) => status === 503) && refused_ms < REFUSED_MS_MAX,
      `answered ${replies.map(({ status }) => status)} after ${refused_ms} ms`,
    );
    await scene.lasts(FROZEN_MS - refused_ms);
    redis.thaw();
    scene.over();
    await scene.driver.more(scene.some);
    const recovered = await scene.metric('recovered_leases_total');
    scene.check(recovered === 0, `${recovered} leases of the living were recovered`);
    scene.figure('refused_after_s', refused_ms / 1_000);
    return scene.judge({ duplicates_max: 0 });
  },
};
