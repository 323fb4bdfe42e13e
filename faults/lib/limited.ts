// Tasks of a rate limiter beside the load, and how many of them a receiver heard in any one second.
import type { Scene } from './scene.ts';

export const LIMIT = 50;
const PATH = '/by-the-second';
/** Longer than any clock jumps: an hour ahead, all that waits has waited for an hour. */
const WAIT_S_MAX = 604_800;
/** What the way to the receiver may squeeze together: it hears later than was written, and not evenly. */
const JITTER_MS = 100;

/** A window of 50 a second, and tasks that it keeps busy for so long. */
export async function startLimited(scene: Scene, seconds: number): Promise<void> {
  const body = {
    name: 'by-the-second',
    type: 'window',
    config: { limit: LIMIT, interval: 1 },
    timeouts: { queue_timeout: WAIT_S_MAX, validity_timeout: WAIT_S_MAX },
  };
  await scene.client().ask('POST', '/v1/rate-limiters', { body });
  const target = scene.slow.at(PATH);
  const tasks = Array.from({ length: LIMIT * seconds }, () => ({
    target,
    rate_limiter: 'by-the-second',
    retry: { max_retries: 5, delay: 0.2 },
  }));
  await scene.driver.batch(tasks);
}

/** The most that came in any second, the receiver's jitter aside. */
export function mostInASecond(scene: Scene): number {
  const at_ms = scene.slow.to(PATH).map((call) => call.at_ms);
  let most = 0;
  for (let first = 0, last = 0; last < at_ms.length; last++) {
    while ((at_ms[last] ?? 0) - (at_ms[first] ?? 0) >= 1_000 - JITTER_MS) first++;
    most = Math.max(most, last - first + 1);
  }
  return most;
}
