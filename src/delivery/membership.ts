// Says several times a second that this process is alive, and tells its threads what they own when the members change.
import { monotonicMs } from '../base/clock.ts';
import { type Log, limitedLog } from '../base/log.ts';
import type { Service } from '../base/service.ts';
import { beat, type Member } from '../store/members.ts';
import type { RedisClient } from '../store/script.ts';
import { partitionsOf } from './ownership.ts';

export interface MembershipOptions {
  client: RedisClient;
  id: string;
  threads: number;
  /** What they do, where that is not to make callbacks: each group shares the partitions by itself. */
  group?: string;
  /** Their number as it stands; what grows is noticed at the next beat. */
  partitions: { readonly now: number };
  /** What each thread owns now; called at the start and when it changes. */
  onAssignment(owned: readonly number[][]): void;
  log: Log;
}

/** A process alone has nobody to take over from it; one of several is missed within a second. */
const BEAT_ALONE_MS = 1_000;
const BEAT_MS = 250;
/** Timers come up to so much too early. */
const EARLY_MS = 2;
/** A process not heard of for this long gives its partitions to others; what it has in flight is judged elsewhere. */
const SILENCE_MS = 750;

export class Membership implements Service {
  readonly name = 'membership';
  readonly #options: MembershipOptions;
  #timer: NodeJS.Timeout | null = null;
  #known = '';
  #stopped = false;
  #alone = true;
  #beating: Promise<void> = Promise.resolve();

  constructor(options: MembershipOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    await this.#beat();
    this.#again();
  }

  /** Leaves, so that others take over at once. */
  async stop(): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#beating;
    const { client, id, group } = this.#options;
    await beat(client, id, 0, SILENCE_MS, group).catch(() => []); // silence says the same, a little later
  }

  #again(): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(
      () => {
        this.#beating = this.#beat()
          .catch((error: unknown) => {
            limitedLog(this.#options.log).warn({ err: error }, 'could not say that this process is alive');
          })
          .then(() => this.#again());
      },
      untilTogether(this.#alone ? BEAT_ALONE_MS : BEAT_MS),
    );
  }

  async #beat(): Promise<void> {
    const { client, id, threads, partitions, group, onAssignment } = this.#options;
    const members = await beat(client, id, threads, SILENCE_MS, group);
    this.#alone = members.length <= 1;
    const seen = `${partitions.now} ${fingerprint(members)}`;
    if (seen === this.#known || this.#stopped) return;
    this.#known = seen;
    onAssignment(partitionsOf(id, members, partitions.now));
  }
}

/** Until the next multiple of it since this process began: all groups of a process beat at the same moment, which wakes it and Redis once. */
function untilTogether(gap_ms: number): number {
  const wait_ms = gap_ms - (monotonicMs() % gap_ms);
  return wait_ms < EARLY_MS ? wait_ms + gap_ms : wait_ms;
}

function fingerprint(members: readonly Member[]): string {
  return members
    .map(({ id, threads }) => `${id}:${threads}`)
    .sort()
    .join(' ');
}
