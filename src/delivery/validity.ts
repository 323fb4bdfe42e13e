// How old tasks of a limiter may become, over all their attempts: its `validity_timeout`. The limiter judges what stands in its line; a task that
// failed and waits for its next attempt does not stand there, so who sets that time asks here when it has to be there.
import { type Clock, monotonicMs } from '../base/clock.ts';
import type { FlightLimit } from '../store/claimed.ts';
import { readLimiter } from '../store/limiters.ts';
import type { Settlement } from '../store/partition.ts';
import type { RedisClient } from '../store/script.ts';
import type { CallSpec } from './spec.ts';

/** A limiter that is changed is known to all after this long. */
const TTL_MS = 1_000;
/** Of so many limiters it is known; what was read first is forgotten first. */
const LANES_MAX = 256;

export class Validity {
  readonly #client: RedisClient;
  readonly #monotonic: Clock;
  /** null: it was deleted, and holds nobody back. */
  readonly #known = new Map<string, { valid_ms: Promise<number | null>; read_ms: number }>();

  constructor(client: RedisClient, monotonic: Clock = monotonicMs) {
    this.#client = client;
    this.#monotonic = monotonic;
  }

  /**
   * The settlement as `settle` makes it from the time until which the limiter lets the task start: null where that has no end, or cannot be read
   * now. It is read only for a retry; `then` comes at once in all other cases.
   */
  settle(
    limit: FlightLimit | null,
    { valid_until_ms }: Pick<CallSpec, 'valid_until_ms'>,
    settle: (until_ms: number | null) => Settlement,
    then: (settlement: Settlement) => void,
  ): void {
    const settlement = settle(null);
    // Its own time stands in place of the limiter's.
    if (limit === null || settlement.verdict !== 'r' || valid_until_ms !== null) return then(settlement);
    void this.#validMs(limit.lane).then((valid_ms) => then(valid_ms === null ? settlement : settle(limit.first_ms + valid_ms)));
  }

  #validMs(lane: string): Promise<number | null> {
    const known = this.#known.get(lane);
    const now_ms = this.#monotonic();
    if (known !== undefined && now_ms - known.read_ms < TTL_MS) return known.valid_ms;
    const valid_ms = readLimiter(this.#client, lane).then(
      (row) => (row === null || row.deleted_ms !== null ? null : row.timeouts.validity_timeout * 1_000 || null),
      () => null,
    );
    this.#known.delete(lane);
    this.#known.set(lane, { valid_ms, read_ms: now_ms });
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= LANES_MAX) break;
      this.#known.delete(oldest);
    }
    return valid_ms;
  }
}
