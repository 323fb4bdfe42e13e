// When this process stood still: on a busy machine what arrives then is seen late, and nobody but us is late.
import { after } from 'node:test';

const LOOK_MS = 2;
const STALL_MS = 4;
/** A stall is put down by a timer, which may run a little before or after what it held up. */
const NEAR_MS = 20;
const STALLS_MAX = 100_000;

export interface Stalls {
  /** How much earlier than `at_ms` (Date.now()) something may have come that was seen then. */
  before(at_ms: number): number;
}

/** Watches from now until the test file ends. */
export function watchStalls(): Stalls {
  const stalls: { end_ms: number; length_ms: number }[] = [];
  let last_ms = Date.now();
  const timer = setInterval(() => {
    const now_ms = Date.now();
    const length_ms = now_ms - last_ms - LOOK_MS;
    last_ms = now_ms;
    if (length_ms >= STALL_MS && stalls.length < STALLS_MAX) stalls.push({ end_ms: now_ms, length_ms });
  }, LOOK_MS);
  after(() => clearInterval(timer));
  return {
    before: (at_ms) => stalls.reduce((most, { end_ms, length_ms }) => (Math.abs(end_ms - at_ms) <= NEAR_MS ? most + length_ms : most), 0),
  };
}
