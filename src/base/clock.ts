// The only file that reads a clock of this process. State that is shared is timed by Redis's own clock instead.

/** Milliseconds since the Unix epoch. */
export type Clock = () => number;

export const systemClock: Clock = () => Date.now();

/** Milliseconds that never go back; for durations only. */
export const monotonicMs: Clock = () => performance.now();
