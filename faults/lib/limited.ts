// Tasks of a rate limiter beside the load, and how many of them a receiver heard in any one second.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import { mostWithin } from '../../bench/lib/stats.ts';
import type { Scene } from './scene.ts';

export const LIMIT = 50;
/** Longer than any clock jumps: an hour ahead, all that waits has waited for an hour. */
const WAIT_S_MAX = 604_800;
/** What the way to the receiver may squeeze together: it hears later than was written, and not evenly. */
const JITTER_MS = 100;
const PROCESS = fileURLToPath(new URL('./limited.process.ts', import.meta.url));

export interface Limited {
  /** The most that came in any second, the receiver's jitter aside. */
  mostInASecond(): number;
}

/** A window of 50 a second, and tasks that it keeps busy for so long. */
export async function startLimited(scene: Scene, seconds: number): Promise<Limited> {
  const receiver = fork(PROCESS, { execArgv: ['--import', 'tsx'] });
  after(() => receiver.kill());
  const [{ port }] = (await once(receiver, 'message')) as [{ port: number }];
  const heard_ms: number[] = [];
  receiver.on('message', ({ id, at_ms }: { id: string; at_ms: number }) => {
    heard_ms.push(at_ms);
    scene.heard(id, at_ms);
  });
  const body = {
    name: 'by-the-second',
    type: 'window',
    config: { limit: LIMIT, interval: 1 },
    timeouts: { queue_timeout: WAIT_S_MAX, validity_timeout: WAIT_S_MAX },
  };
  await scene.client().ask('POST', '/v1/rate-limiters', { body });
  const target = `http://127.0.0.1:${port}/`;
  const tasks = Array.from({ length: LIMIT * seconds }, () => ({
    target,
    rate_limiter: 'by-the-second',
    retry: { max_retries: 5, delay: 0.2 },
  }));
  await scene.driver.batch(tasks);
  return { mostInASecond: () => mostWithin(heard_ms, 1_000 - JITTER_MS) };
}
