// The thread that makes the calls ends, by an exit and by an exception, with a thousand of them in flight.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dataDir } from '../../test/helpers/engine.ts';
import { startRedis, until } from '../../test/helpers/redis.ts';
import type { Fault } from '../lib/fault.ts';

const HELD = 1_000;
const SEEN_MS_MAX = 10_000;

export const threadDies: Fault = {
  row: 2,
  name: '',
  what: 'the calling thread exits, then throws, a thousand in flight',
  async run(scene) {
    const redis_url = `unix://${(await startRedis()).path}`;
    const data_dir = dataDir();
    const file = join(data_dir, 'mortal');
    const node_args = ['--import', './test/engine/mortal.js'];
    const engine = await scene.engine({ redis_url, data_dir, node_args, env: { MORTAL_FILE: file } });
    let risk = 0;
    for (const death of ['exit', 'throw']) {
      await scene.driver.more(scene.some);
      const held = await scene.hold(HELD);
      scene.begins();
      // Not the express, which calls single tasks.
      writeFileSync(file, `${death} ${held.path}`);
      await until(() => held.count() === 0, SEEN_MS_MAX, `the thread to die by ${death}`);
      scene.over();
      risk += HELD + (await scene.atRisk());
      held.release();
      await scene.driver.more(scene.some);
    }
    scene.check((await (await fetch(`${engine.url}/readyz`)).text()).length > 0 && engine.pid > 0, 'the process goes on');
    return scene.judge({ duplicates_max: risk });
  },
};
