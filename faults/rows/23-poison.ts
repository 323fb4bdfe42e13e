// A task whose answer ends the thread that reads it: three deaths, and it fails; what is called beside it is not harmed.
import { startRedis, until } from '../../test/helpers/redis.ts';
import type { Fault } from '../lib/fault.ts';

const DEATHS = 3;
/** In flight beside it each time. */
const BESIDE = 15;
const BESIDE_MS = 300;
/** Of about a hundred: where the machine stands still for so long that one's call takes more than a second, another begins beside it. */
const HARMED_MAX = 1;
const ENDED_MS_MAX = 120_000;

export const poison: Fault = {
  row: 23,
  name: '',
  what: 'an answer that ends the thread which reads it',
  async run(scene) {
    const redis_url = `unix://${(await startRedis()).path}`;
    await scene.engine({ redis_url, node_args: ['--import', './faults/poison.js'] });
    await scene.driver.more(scene.some);
    scene.begins();
    const poisonous = scene.slow.at('/poison', { headers: { 'x-poison': '1' } });
    const target = scene.slow.at('/beside', { delay_ms: BESIDE_MS });
    const id = await scene.driver.batch([{ target: poisonous }, ...Array.from({ length: BESIDE }, () => ({ target }))]);
    const heard = (): number => scene.slow.to('/poison').length;
    let risk = DEATHS - 1;
    for (let death = 1; death <= DEATHS; death++) {
      await until(() => heard() >= death, ENDED_MS_MAX, `death ${death}`);
      risk += await scene.atRisk();
    }
    const client = scene.client();
    await client.batchWhen(id ?? '', ({ stats }) => stats.pending === 0, ENDED_MS_MAX);
    scene.over();
    const tasks = await client.allTasks(id ?? '');
    const lost = await client.task(tasks[0]?.id ?? '');
    scene.check(heard() === DEATHS, `called ${heard()} times`);
    scene.check(JSON.stringify(lost).includes('worker_lost'), `it ended as ${lost.status}`);
    await scene.driver.more(scene.some);
    return scene.judge({ duplicates_max: risk, failed_max: 1 + HARMED_MAX });
  },
};
