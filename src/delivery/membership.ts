// Says several times a second that this process is alive, and tells its threads what they own when the members change. Who has not been heard for too long is missed
// right then: the next beat is not later.
import { type Log, limitedLog } from '../base/log.ts';
import type { Service } from '../base/service.ts';
import { beat, type Group, type Member } from '../store/members.ts';
import type { RedisClient } from '../store/script.ts';
import { partitionsOf } from './ownership.ts';

/** Threads of this process that do the same. */
export interface ThreadGroup {
  group: Group;
  threads: number;
  /** What each thread owns now; called at the start and when it changes. */
  onAssignment(owned: readonly number[][]): void;
}

export interface MembershipOptions {
  client: RedisClient;
  id: string;
  groups: readonly ThreadGroup[];
  /** Their number as it stands; what grows is noticed at the next beat. */
  partitions: { readonly now: number };
  log: Log;
}

const BEAT_MS = 350;
/** A process alone has nobody to take over from it. It dates its marks ahead by as much as they are further apart, for whoever comes between two. */
const BEAT_ALONE_MS = 1_000;
/** A process not heard of for this long gives its partitions to others; what it has in flight is judged elsewhere. */
const SILENCE_MS = 900;
const NONE: Readonly<Record<Group, number>> = { callbacks: 0, cron: 0 };

export class Membership implements Service {
  readonly name = 'membership';
  readonly #options: MembershipOptions;
  readonly #threads: Readonly<Record<Group, number>>;
  readonly #known = new Map<Group, string>();
  #timer: NodeJS.Timeout | null = null;
  #alone = false;
  /** To the next beat; never more than the last one has told. */
  #wait_ms = BEAT_MS;
  #stopped = false;
  #beating: Promise<void> = Promise.resolve();

  constructor(options: MembershipOptions) {
    this.#options = options;
    this.#threads = { ...NONE, ...Object.fromEntries(options.groups.map(({ group, threads }) => [group, threads])) };
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
    await beat(client, id, NONE, SILENCE_MS).catch(() => {}); // silence says the same, a little later
  }

  #again(): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(() => {
      this.#beating = this.#beat()
        .catch((error: unknown) => {
          this.#wait_ms = BEAT_MS;
          limitedLog(this.#options.log).warn({ err: error }, 'could not say that this process is alive');
        })
        .then(() => this.#again());
    }, this.#wait_ms);
  }

  async #beat(): Promise<void> {
    const { client, id, partitions, groups } = this.#options;
    const marked_ms = this.#alone ? BEAT_ALONE_MS : BEAT_MS;
    const { members, left_ms } = await beat(client, id, this.#threads, SILENCE_MS, marked_ms - BEAT_MS);
    this.#alone = groups.every(({ group }) => members[group].length <= 1);
    this.#wait_ms = this.#alone ? marked_ms : Math.min(BEAT_MS, left_ms + 1);
    for (const { group, onAssignment } of groups) {
      const seen = `${partitions.now} ${fingerprint(members[group])}`;
      if (seen === this.#known.get(group) || this.#stopped) continue;
      this.#known.set(group, seen);
      onAssignment(partitionsOf(id, members[group], partitions.now));
    }
  }
}

function fingerprint(members: readonly Member[]): string {
  return members
    .map(({ id, threads }) => `${id}:${threads}`)
    .sort()
    .join(' ');
}
