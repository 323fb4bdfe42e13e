// A thousand slots of each master move to the next one by redis-cli, under load.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { startCluster } from '../../test/helpers/cluster.ts';
import type { Fault } from '../lib/fault.ts';

const SLOTS = 1_000;
const SLOTS_QUICK = 50;
const MASTERS = 3;

export const reshard: Fault = {
  row: 11,
  name: '',
  what: '1,000 slots of each master of a Cluster move to the next',
  async run(scene) {
    const cluster = await startCluster();
    await Promise.all([scene.engine({ redis_url: cluster.url }), scene.engine({ redis_url: cluster.url })]);
    await scene.driver.more(scene.some);
    scene.begins();
    const masters = cluster.nodes.slice(0, MASTERS);
    for (const [i, from] of masters.entries()) {
      const to = masters[(i + 1) % MASTERS] ?? from;
      const slots = ['--cluster-slots', String(scene.quick ? SLOTS_QUICK : SLOTS), '--cluster-yes'];
      const way = ['--cluster-from', from.id, '--cluster-to', to.id];
      await promisify(execFile)('redis-cli', ['--cluster', 'reshard', `127.0.0.1:${from.port}`, ...way, ...slots], { maxBuffer: 1e8 });
      await scene.driver.more(scene.some / 4);
    }
    scene.over();
    return scene.judge({ duplicates_max: 0 });
  },
};
