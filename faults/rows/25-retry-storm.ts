// A receiver fails for five minutes and is well again: nobody tries more often than his policy says, and then there is no rush.
import { startRedis } from '../../test/helpers/redis.ts';
import type { Fault } from '../lib/fault.ts';

const TASKS = 2_000;
const FAILS_MS = 300_000;
const FAILS_QUICK_MS = 6_000;
/** More than fit into the time that it fails. */
const RETRIES = 25;
/** Of what came in a second while it failed, in the last of that time. */
const STEADY_MS = 60_000;
const STEADY_QUICK_MS = 3_000;
const PEAK_MAX = 2;
/** The longest wait between two attempts, and as much again. */
const WELL_MS_MAX = 60_000;
const PATH = '/storm';

export const retryStorm: Fault = {
  row: 25,
  name: '',
  what: 'a receiver answers 500 for five minutes, 2,000 tasks waiting for it',
  async run(scene) {
    const redis_url = `unix://${(await startRedis()).path}`;
    await scene.engine({ redis_url });
    await scene.engine({ redis_url });
    await scene.driver.more(scene.some);
    const target = scene.slow.at(PATH, { status: 500 });
    const retry = { max_retries: RETRIES, backoff: 'exponential', delay: 1, max_delay: 30 };
    scene.begins();
    await scene.driver.batch(Array.from({ length: TASKS }, () => ({ target, retry })));
    await scene.lasts(scene.quick ? FAILS_QUICK_MS : FAILS_MS);
    const storm = scene.slow.to(PATH).length;
    const steady_ms = scene.quick ? STEADY_QUICK_MS : STEADY_MS;
    const from_ms = Date.now() - steady_ms;
    const steady = (scene.slow.to(PATH).filter(({ at_ms }) => at_ms > from_ms).length * 1_000) / steady_ms;
    scene.slow.at(PATH, {});
    scene.over();
    // Before the books are looked at: with half a million calls in them the receiver, which is in this process, stands still for a second.
    await scene.slow.heard(PATH, storm + TASKS, WELL_MS_MAX);
    await scene.quiet();
    const calls = scene.slow.to(PATH);
    const attempts = Math.max(...calls.map(({ attempt }) => attempt));
    scene.check(attempts <= RETRIES + 1, `${attempts} attempts where ${RETRIES + 1} may be`);
    scene.check(calls.length - storm === TASKS, `${calls.length - storm} calls after it was well`);
    const seconds = new Map<number, number>();
    for (const { at_ms } of calls.slice(storm)) seconds.set(Math.floor(at_ms / 1_000), (seconds.get(Math.floor(at_ms / 1_000)) ?? 0) + 1);
    scene.figure('calls_while_it_failed', storm);
    scene.figure('attempts_max', attempts);
    const peak = Math.max(...seconds.values());
    scene.figure('per_s_while_it_failed', steady);
    scene.figure('peak_per_s_after', peak);
    // In the short form the first waits, of seconds, are all that there is.
    scene.check(scene.quick || peak <= PEAK_MAX * steady, `${peak} calls in a second after it, ${steady} before`);
    return scene.judge({ duplicates_max: 0 }, { expected: (of) => (of[0]?.path === PATH ? of.length : 1) });
  },
};
