// The clock of one process is a minute and a half ahead of the others: nothing depends on it but what it writes into signatures and logs.
import { startRedis } from '../../test/helpers/redis.ts';
import { makeClock } from '../lib/clock.ts';
import type { Fault } from '../lib/fault.ts';
import { LIMIT, startLimited } from '../lib/limited.ts';

const AHEAD_MS = 90_000;
const LIMITED_S = 10;
/** Starts that a busy machine brings to the receiver closer together than they were written. */
const JITTER = 1.1;

export const processClocks: Fault = {
  row: 16,
  name: '',
  what: 'the clock of one of two processes is 90 s ahead',
  async run(scene) {
    const redis_url = `unix://${(await startRedis()).path}`;
    const clock = makeClock();
    clock.set(AHEAD_MS);
    await scene.engine({ redis_url });
    await scene.engine({ redis_url, env: clock.env });
    scene.begins();
    const limited = await startLimited(scene, LIMITED_S);
    await scene.driver.more(2 * scene.some);
    scene.over();
    await scene.quiet();
    const ahead_s = scene.receiver.calls.map((call) => Number(call.headers['webhook-timestamp']) - call.at_ms / 1_000);
    scene.check(Math.max(...ahead_s) > (AHEAD_MS - 10_000) / 1_000, 'no process had another clock');
    const most = limited.mostInASecond();
    scene.figure('most_in_a_second', most);
    scene.check(most <= LIMIT * JITTER, `${most} in a second where ${LIMIT} may be`);
    return scene.judge({ duplicates_max: 0 });
  },
};
