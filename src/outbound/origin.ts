// The connections of one origin, a few, each carrying one request at a time, and the calls that wait for one.
//
// An undici `Client` is one connection. We pin calls to clients ourselves instead of using undici's Pool: the free ones
// are a stack (Pool walks all of them for each request), a call that waits is in our own queue, where its deadline and
// `abort` reach it, and the number of connections over all origins has a bound.
//
// Most recently used first keeps a few connections warm and lets the others time out.
//
// A few are opened at a time, as many again as are open: what comes in a burst is mostly done by the first of
// them before the last would have been there, and an origin that takes its time has all it may have after some round trips.
// Beyond AT_ONCE of them in use there are more, twice as many with each look, where the host is what its calls wait for. A busy thread that it
// answers quickly would carry no more calls by them, and each would cost it more: nothing of its connection is in the processor's caches any more.
import { WaitingTurns } from '../base/waiting-turns.ts';
import { isRefusedOrigin } from './addresses.ts';
import type { Attempt, Lane } from './attempt.ts';
import { Look, type Seen } from './look.ts';
import type { Paced } from './pace.ts';
import type { Pools } from './pools.ts';
import { Slot } from './slot.ts';

/** Connections of an origin that may be opened at a time, however few are open. */
const OPENING_MIN = 16;
/** Fewer calls than this open their connections themselves. */
const AHEAD_MIN = 8;
/** So many connections of an origin may be in use before anybody looks what its calls wait for. */
const AT_ONCE = 16;
/** A quick host answers on one in so many of the connections in use during a look. */
const QUICK_SHARE = 2;

/** A host with no more in flight than this is not what makes turns long. */
const FEW = 8;

/** All connections to one origin, and the calls that wait for one. */
export class Origin implements Lane, Paced {
  readonly url: string;
  readonly secure: boolean;
  /** No connection is ever opened: not http(s), a closed port, or a blocked address. */
  readonly refused: boolean;
  readonly waiting = new WaitingTurns<Attempt>(({ call }) => call.account_id);
  readonly free: Slot[] = [];
  /** Connections, free or not. */
  connections = 0;
  /** Those of them that were never open yet. */
  #opening = 0;
  /** Those of them that were opened ahead of calls. */
  readonly #ahead = new Set<Slot>();
  /** So many more are to be opened ahead, unless calls open theirs meanwhile. */
  #expected = 0;
  #in_flight = 0;
  /** Connections that may be in use. */
  #most = AT_ONCE;
  /** Calls that left their connection as it was. */
  #answered = 0;
  readonly #look: Look;
  readonly #pools: Pools;

  constructor(url: string, pools: Pools) {
    this.url = url;
    this.#pools = pools;
    this.#look = new Look(
      pools.options.monotonic,
      () => this.#answered,
      (seen) => this.#looked(seen),
    );
    this.secure = url.startsWith('https:');
    this.refused = isRefusedOrigin(url, pools.options.policy);
  }

  enter(attempt: Attempt): void {
    if (++this.#in_flight === 1) this.#pools.resting.delete(this);
    if (this.refused) return attempt.refuse();
    if (this.#pools.closed) return attempt.abort('shutdown');
    const in_time = this.#in_flight <= FEW || this.#pools.pace.hasTime();
    if (this.waiting.size === 0 && in_time && this.#mayUse()) {
      const slot = this.#freeOrNew();
      if (slot !== null) return attempt.send(slot);
    }
    attempt.place = this.waiting.push(attempt);
    if (!in_time) this.#pools.pace.later(this);
    this.#claim();
    this.#lookLater();
  }

  /** So many calls begin in a moment: opens some connections meanwhile, for whoever comes first. */
  expect(calls: number): void {
    if (this.refused || calls < AHEAD_MIN) return;
    this.#expected = Math.min(calls, OPENING_MIN) - this.connections;
    this.#openAhead();
  }

  #openAhead(): void {
    const most = Math.min(OPENING_MIN, this.#pools.options.connections_per_origin_max);
    for (; this.#expected > 0 && this.connections < most && !this.#pools.closed && this.#pools.hasBudget(); this.#expected--) {
      if (!this.#pools.pace.hasTime()) return this.#pools.pace.later(this);
      const slot = this.#open();
      this.#ahead.add(slot);
      slot.connect((error) => this.#failedAhead(slot, error));
    }
    this.#expected = 0;
  }

  #failedAhead(slot: Slot, error: Error): void {
    if (!this.#ahead.delete(slot)) return;
    this.#expected = 0;
    this.#forget(slot);
    slot.destroy();
    // As if it had been opened for the first that waits: else calls to a host that cannot be reached would learn it later.
    if (this.waiting.size > this.free.length + this.#ahead.size) this.waiting.shift()?.onError(error);
    this.#goOn();
  }

  leave(attempt: Attempt): void {
    const slot = attempt.slot;
    attempt.slot = null;
    if (!(slot instanceof Slot)) {
      if (attempt.place !== null) this.waiting.remove(attempt.place);
    } else if (!attempt.reusable || slot.broken) {
      // The client goes with its connection: after an aborted request undici's client connects again by itself, for
      // nothing, and after some errors of connecting it never does.
      this.#forget(slot);
      slot.destroy();
      this.#goOn();
    } else if (this.#pools.closed || attempt.finished_ms > slot.until_ms) {
      this.#retire(slot);
    } else {
      this.#answered += 1;
      this.#next(slot);
    }
    if (--this.#in_flight < AT_ONCE) this.#most = AT_ONCE;
    if (this.#in_flight === 0) this.#pools.resting.add(this);
  }

  /** It can carry the next call, here or elsewhere. */
  #next(slot: Slot): void {
    if (this.#pools.owes(this)) return this.#retire(slot);
    const next = this.waiting.shift();
    if (next !== null) return next.send(slot);
    slot.free = true;
    this.free.push(slot);
    this.#pools.free++;
  }

  #retire(slot: Slot): void {
    this.#forget(slot);
    slot.retire();
    this.#goOn();
  }

  /** A connection is gone: who waits gets a free one in its place, or another may be opened, here or elsewhere. */
  #goOn(): void {
    const slot = this.waiting.size > 0 && this.#mayUse() ? this.free.pop() : undefined;
    if (slot !== undefined) {
      this.#taken(slot);
      this.waiting.shift()?.send(slot);
    }
    this.#pools.feed(this);
    this.#claim();
  }

  /** Gives the connection that has become possible to the first that waits here. */
  serve(): void {
    const next = this.waiting.shift();
    if (next !== null) next.send(this.#open());
    this.#claim();
    this.#lookLater();
  }

  /** Closes the free connection that was used least recently. */
  closeOne(): void {
    const slot = this.free.shift();
    if (slot === undefined) return;
    this.#taken(slot);
    this.#forget(slot);
    slot.retire();
  }

  /** Closes all connections that no call uses; an origin that is starved may have as many more. */
  async closeUnused(): Promise<void> {
    const slots = [...this.#ahead, ...this.free];
    this.#ahead.clear();
    this.#expected = 0;
    this.free.length = 0;
    for (const slot of slots) {
      if (slot.free) this.#taken(slot);
      this.#forget(slot);
    }
    const closed = slots.map((slot) => new Promise<void>((done) => slot.destroy(done)));
    for (const _ of slots) this.#pools.feed(this);
    await Promise.all(closed);
  }

  /** Whether its own bounds leave room for one more connection. */
  mayOpen(): boolean {
    const open = this.connections - this.#opening;
    const few = this.connections < this.#pools.options.connections_per_origin_max && this.#opening < Math.max(OPENING_MIN, open);
    return few && this.free.length === 0 && this.#mayUse();
  }

  get #in_use(): number {
    return this.connections - this.free.length;
  }

  #mayUse(): boolean {
    return this.#in_use < this.#most;
  }

  #freeOrNew(): Slot | null {
    const slot = this.free.pop();
    if (slot !== undefined) {
      this.#taken(slot);
      this.#pools.pace.begins();
      return slot;
    }
    return this.mayOpen() && this.#pools.hasRoom() ? this.#open() : null;
  }

  sendWaiting(): void {
    while (this.waiting.size > 0 && !this.#pools.closed && this.#pools.pace.hasTime() && this.#mayUse()) {
      const slot = this.#freeOrNew();
      if (slot === null) break;
      this.waiting.shift()?.send(slot);
    }
    this.#openAhead();
    if (this.waiting.size > 0 && !this.#pools.pace.hasTime()) this.#pools.pace.later(this);
    this.#claim();
    this.#lookLater();
  }

  #lookLater(): void {
    if (this.waiting.size > 0 && !this.#mayUse()) this.#look.begin();
  }

  #looked({ busy, answers }: Seen): void {
    if (this.#pools.closed) return;
    const quick = answers * QUICK_SHARE >= this.#in_use;
    if (!(busy && quick) && !this.#mayUse()) this.#most *= 2;
    this.sendWaiting();
  }

  /** Waits for a share of the budget while its own bounds leave room, and the budget does not. */
  #claim(): void {
    if (this.waiting.size > 0 && this.mayOpen() && !this.#pools.hasBudget()) this.#pools.starved.add(this);
  }

  #open(): Slot {
    this.#pools.pace.opens();
    const { monotonic, connectorFor } = this.#pools.options;
    const slot = new Slot(this.url, this.connections, monotonic(), connectorFor);
    this.connections++;
    this.#opening++;
    this.#pools.connections++;
    slot.client.once('connect', () => this.#opened(slot));
    slot.client.on('disconnect', () => this.#closed(slot));
    return slot;
  }

  /** As many more may be opened. */
  #opened(slot: Slot): void {
    if (!slot.fresh) return;
    slot.fresh = false;
    this.#opening--;
    if (this.#ahead.delete(slot)) this.#next(slot);
    this.sendWaiting();
  }

  /** One that was free is gone, as after some seconds without work. One that is in use says so by its request. */
  #closed(slot: Slot): void {
    if (!slot.free) return;
    this.free.splice(this.free.indexOf(slot), 1);
    this.#taken(slot);
    this.#forget(slot);
    slot.destroy();
    this.#pools.feed(this);
    this.#claim();
  }

  #taken(slot: Slot): void {
    slot.free = false;
    this.#pools.free--;
  }

  #forget(slot: Slot): void {
    this.connections--;
    this.#pools.connections--;
    if (!slot.fresh) return;
    slot.fresh = false;
    this.#opening--;
  }
}
