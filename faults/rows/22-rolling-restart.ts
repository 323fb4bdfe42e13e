// Processes are replaced one after another under load. Requests go to whoever is there, as behind a proxy that asks again.
import { startRedis } from '../../test/helpers/redis.ts';
import type { Fault } from '../lib/fault.ts';

const PROCESSES = 3;
const ROUNDS = 3;

export const rollingRestart: Fault = {
  row: 22,
  name: '',
  what: 'SIGTERM of each of three processes in turn, and a new one',
  async run(scene) {
    const redis_url = `unix://${(await startRedis()).path}`;
    await Promise.all(Array.from({ length: PROCESSES }, () => scene.engine({ redis_url })));
    await scene.driver.more(scene.some);
    scene.begins();
    for (let round = 0; round < (scene.quick ? 1 : ROUNDS); round++) {
      for (const leaves of [...scene.engines]) {
        await scene.engine({ redis_url });
        scene.forget(leaves);
        const code = await leaves.stop();
        scene.check(code === 0, `a process that was asked to leave ended with ${code}`);
        await scene.driver.more(scene.some / 4);
      }
    }
    scene.over();
    return scene.judge({ duplicates_max: 0 });
  },
};
