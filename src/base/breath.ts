// Long work in small pieces, for a thread that nobody waits for as much as for the others: where cores are few, those get theirs in between.
// A low priority alone does not do that. The kernel lets a thread that runs finish its slice, and the lower its priority, the longer the others
// wait behind it: two such threads on two cores made small requests take up to 100 ms.

/** How long a thread works at a stretch, and how long it rests then. */
const WORK_MS = 0.5;
const REST_MS = 0.5;

const cell = new Int32Array(new SharedArrayBuffer(4));
/** When this thread rests next; never, unless it was told to. */
let rest_at_ms = Number.POSITIVE_INFINITY;

/** From here on this thread rests at each `breathe` whose time has come. */
export function takeBreaths(): void {
  rest_at_ms = 0;
}

/** To be called often in long loops: costs nothing in a thread that does not rest, and a look at the clock in one that does. */
export function breathe(): void {
  if (rest_at_ms === Number.POSITIVE_INFINITY || performance.now() < rest_at_ms) return;
  Atomics.wait(cell, 0, 0, REST_MS);
  rest_at_ms = performance.now() + WORK_MS;
}
