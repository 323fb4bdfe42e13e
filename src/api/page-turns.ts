// Pages of downloads, and of long lists, take turns. A page is some MB at most, and answers of Redis come one behind another: without turns, whoever
// else asks waits for as many pages as there are downloads, and from some 150 of them on longer than a call to Redis may take.
import { ApiError } from '../base/errors.ts';
import { WaitingTurns } from '../base/waiting-turns.ts';

/** Pages that are read at a time: one comes from Redis while another is made into lines. */
const READING_MAX = 2;
/** Tasks of a page that needs no turn: it is over before another would be. */
const SHORT_MAX = 100;

export function isLong(tasks: number): boolean {
  return tasks > SHORT_MAX;
}

/** Who reads: a Call. */
interface Reader {
  account_id: string;
  abandoned: () => boolean;
}

interface Waiting {
  account_id: string;
  go: () => void;
}

export class PageTurns {
  /** Accounts take turns, and of each who came first. */
  readonly #waiting = new WaitingTurns<Waiting>(({ account_id }) => account_id);
  #reading = 0;

  /** Reads a page when its turn has come, and settles as `page` does; rejects, and reads nothing, where by then nobody waits for it. */
  async read<T>({ account_id, abandoned }: Reader, page: () => Promise<T>): Promise<T> {
    if (this.#reading < READING_MAX) this.#reading += 1;
    else await new Promise<void>((go) => void this.#waiting.push({ account_id, go }));
    try {
      if (abandoned()) throw new ApiError('unavailable', {}, { retry_after_s: 1 });
      return await page();
    } finally {
      // The turn goes to the next, or back.
      const next = this.#waiting.shift();
      if (next === null) this.#reading -= 1;
      else next.go();
    }
  }
}
