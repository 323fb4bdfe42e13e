// Long work in small pieces, for a thread that nobody waits for as much as for the others: where cores are few, those get theirs in between.
// A low priority alone does not do that. The kernel lets a thread that runs finish its slice, and the lower its priority, the longer the others
// wait behind it: two such threads on two cores made small requests take up to 100 ms.

/** How long a thread works at a stretch. */
const WORK_MS = 0.5;
/** How long it rests then: where small requests come, by its size, and less where others of its kind wait behind it. Where nobody asked for anything small for a while it goes on. */
const REST_MS = 4;
const SHORT_REST_MS = 0.5;
const NO_REST_MS = 0;
/** Where a rest lasts until the others have used up their slices, work that rests on would not be done before its caller gives up. */
const PATIENCE_MS = 2_000;
/** For so long after a request more are expected. */
const EXPECTED_MS = 1000;

/** What the thread is told of those who would wait for it; shared between threads. */
export class Demand {
  /** Requests served, and calls that the thread has or that wait for it. */
  readonly cells: Int32Array;

  constructor(cells: Int32Array = new Int32Array(new SharedArrayBuffer(8))) {
    this.cells = cells;
  }

  served(): void {
    Atomics.add(this.cells, 0, 1);
  }

  /** One more call for the thread, or one fewer. */
  called(change: 1 | -1): void {
    Atomics.add(this.cells, 1, change);
  }

  get requests(): number {
    return Atomics.load(this.cells, 0);
  }

  get calls(): number {
    return Atomics.load(this.cells, 1);
  }
}

const cell = new Int32Array(new SharedArrayBuffer(4));
/** When this thread rests next; never, unless it was told to. */
let rest_at_ms = Number.POSITIVE_INFINITY;
let rests_until_ms = 0;
let rest_ms = (): number => NO_REST_MS;

/** From here on, for two seconds, this thread rests at each `breathe` whose time has come, if others ask: much longer than it works, or as long. */
export function takeBreaths(demand: Demand, much: boolean): void {
  rest_at_ms = 0;
  rests_until_ms = performance.now() + PATIENCE_MS;
  rest_ms = restsBy(demand, much ? REST_MS : SHORT_REST_MS, () => performance.now());
}

/** How long to rest, asked each time anew, in milliseconds. `asked_ms`: while others ask. `now_ms`: a monotonic clock. */
export function restsBy(demand: Demand, asked_ms: number, now_ms: () => number): () => number {
  let requests = demand.requests;
  let requested_ms = Number.NEGATIVE_INFINITY;
  return () => {
    if (demand.requests !== requests) {
      requests = demand.requests;
      requested_ms = now_ms();
    }
    if (now_ms() - requested_ms >= EXPECTED_MS) return NO_REST_MS;
    return demand.calls > 1 ? SHORT_REST_MS : asked_ms;
  };
}

/** To be called often in long loops: costs nothing in a thread that does not rest, and a look at the clock in one that does. */
export function breathe(): void {
  if (rest_at_ms === Number.POSITIVE_INFINITY || performance.now() < rest_at_ms) return;
  const ms = rest_ms();
  if (ms > 0) Atomics.wait(cell, 0, 0, ms);
  const now_ms = performance.now();
  rest_at_ms = now_ms < rests_until_ms ? now_ms + WORK_MS : Number.POSITIVE_INFINITY;
}
