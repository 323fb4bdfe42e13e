// A master stands still for ten seconds, is replaced meanwhile, and comes back: it steps down, and what it had alone is gone.
import { keys } from '../../src/store/keys.ts';
import { startCluster } from '../../test/helpers/cluster.ts';
import { until } from '../../test/helpers/redis.ts';
import type { Fault } from '../lib/fault.ts';

const HELD = 1_000;
const NODE_TIMEOUT_MS = 5_000;
const PAUSED_MS = 10_000;
const STEPPED_MS_MAX = 30_000;

export const masterPaused: Fault = {
  row: 7,
  name: '',
  what: 'a master stands still for 10 s, is replaced, and goes on',
  loses: true,
  async run(scene) {
    const cluster = await startCluster({ node_timeout_ms: NODE_TIMEOUT_MS });
    await Promise.all([scene.engine({ redis_url: cluster.url }), scene.engine({ redis_url: cluster.url })]);
    await scene.driver.more(scene.some);
    const held = await scene.hold(HELD);
    const master = await cluster.masterOf(keys.partition(0));
    scene.begins();
    master.freeze();
    const risk = await scene.atRisk();
    held.release();
    await scene.lasts(PAUSED_MS);
    master.thaw();
    scene.over();
    const down = async (): Promise<boolean> => /role:slave/.test(await master.redis.info('replication'));
    await until(down, STEPPED_MS_MAX, 'the old master to step down');
    await scene.driver.more(scene.some);
    return scene.judge({ duplicates_max: risk, lost_max: 0, forgets: true });
  },
};
