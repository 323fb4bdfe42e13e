// Waiting for a time, and no longer than a time.
import { monotonicMs } from './clock.ts';

/** Calls `then` at `at_ms` (monotonic) or later, at once where that has passed. A timer of Node may be early; this never is. */
export function notBefore(at_ms: number, then: () => void): void {
  const left_ms = at_ms - monotonicMs();
  if (left_ms <= 0) then();
  else setTimeout(() => notBefore(at_ms, then), Math.ceil(left_ms));
}

/** Whether `work` ended within so many milliseconds. Rejects as it does. */
export async function endsWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<false>((done) => {
    timer = setTimeout(() => done(false), ms);
  });
  const ended = await Promise.race([work.then(() => true as const), late]);
  clearTimeout(timer);
  return ended;
}
