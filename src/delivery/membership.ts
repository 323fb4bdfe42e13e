// Says every second that this process is alive, and tells its threads what they own when the members change.
import { type Log, limitedLog } from '../base/log.ts';
import type { Service } from '../base/service.ts';
import { beat, type Member } from '../store/members.ts';
import type { RedisClient } from '../store/script.ts';
import { partitionsOf } from './ownership.ts';

export interface MembershipOptions {
  client: RedisClient;
  id: string;
  threads: number;
  partitions: number;
  /** What each thread owns now; called at the start and when it changes. */
  onAssignment(owned: readonly number[][]): void;
  log: Log;
}

const BEAT_MS = 1_000;
/** A process that was not heard of for this long gives its partitions to others; its work in flight is another matter. */
const SILENCE_MS = 3_500;

export class Membership implements Service {
  readonly name = 'membership';
  readonly #options: MembershipOptions;
  #timer: NodeJS.Timeout | null = null;
  #known = '';
  #stopped = false;
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
    const { client, id } = this.#options;
    await beat(client, id, 0, SILENCE_MS).catch(() => []); // silence says the same, a little later
  }

  #again(): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(() => {
      this.#beating = this.#beat()
        .catch((error: unknown) => {
          limitedLog(this.#options.log).warn({ err: error }, 'could not say that this process is alive');
        })
        .then(() => this.#again());
    }, BEAT_MS);
  }

  async #beat(): Promise<void> {
    const { client, id, threads, partitions, onAssignment } = this.#options;
    const members = await beat(client, id, threads, SILENCE_MS);
    const seen = fingerprint(members);
    if (seen === this.#known || this.#stopped) return;
    this.#known = seen;
    onAssignment(partitionsOf(id, members, partitions));
  }
}

function fingerprint(members: readonly Member[]): string {
  return members
    .map(({ id, threads }) => `${id}:${threads}`)
    .sort()
    .join(' ');
}
