// Writes single tasks in groups: while one call to Redis is under way, what arrives for the same account waits for the
// next. A task that comes alone is written at once; under load one call carries hundreds, and costs little more than one
// (docs/decisions/0065-tasks-that-come-together.md).
import { monotonicMs } from '../base/clock.ts';
import { newCore } from '../base/id.ts';
import { PAGE_TASKS, TRAY_GROUP_BYTES_MAX, TRAY_GROUP_TASKS_MAX } from '../base/limits.ts';
import * as batches from '../store/batches.ts';
import type { NewTask } from '../store/records.ts';
import type { RedisClient } from '../store/script.ts';
import type { Placement } from './placement.ts';

/** For so long after tasks came together a first one is waited with for the next, so that it does not leave alone ahead of many. */
const BUSY_MS = 5;
/** So long they are waited for at most. */
const GATHER_MS_MAX = 2;

/** Where a task came to lie. */
export interface Place {
  core: string;
  index: number;
}

interface Waiting {
  task: NewTask;
  done(place: Place): void;
  failed(error: unknown): void;
}

/** Of one account. */
interface Line {
  waiting: Waiting[];
  /** Where in its page the next task comes to lie, if nobody else writes to the tray and it is not full. */
  place: number;
  running: boolean;
  /** When tasks last came together. */
  busy_ms: number;
}

export interface TrayWriterDeps {
  client: RedisClient;
  placement: Placement;
  /** For the name of a tray. */
  clock(): number;
}

export class TrayWriter {
  readonly #deps: TrayWriterDeps;
  readonly #lines = new Map<string, Line>();

  constructor(deps: TrayWriterDeps) {
    this.#deps = deps;
  }

  /** Stores a task. Rejects where its group could not be written; whether it was is then unknown. */
  write(account_id: string, task: NewTask): Promise<Place> {
    return new Promise((done, failed) => {
      const line = this.#lineOf(account_id);
      line.waiting.push({ task, done, failed });
      if (!line.running) void this.#run(account_id, line);
    });
  }

  #lineOf(account_id: string): Line {
    const known = this.#lines.get(account_id);
    if (known !== undefined) return known;
    const line = { waiting: [], place: 0, running: false, busy_ms: Number.NEGATIVE_INFINITY };
    this.#lines.set(account_id, line);
    return line;
  }

  async #run(account_id: string, line: Line): Promise<void> {
    line.running = true;
    if (monotonicMs() < line.busy_ms + BUSY_MS) await gathered(line.waiting);
    while (line.waiting.length > 0) {
      const group = takeGroup(line.waiting);
      const outcome = await this.#write(account_id, group, line.place);
      if ('error' in outcome) for (const { failed } of group) failed(outcome.error);
      else {
        for (const [i, { done }] of group.entries()) done({ core: outcome.core, index: outcome.index + i });
        line.place = (outcome.index + group.length) % PAGE_TASKS;
      }
      if (group.length > 1) line.busy_ms = monotonicMs();
      await gathered(line.waiting);
    }
    line.running = false;
    if (monotonicMs() >= line.busy_ms + BUSY_MS) this.#lines.delete(account_id);
  }

  /** Where the first of the group came to lie, or why it did not. */
  async #write(account_id: string, group: readonly Waiting[], page_place: number): Promise<Place | { error: unknown }> {
    const { client, placement, clock } = this.#deps;
    const create = (partition: number) =>
      batches.createTasks(client, {
        partition,
        core: newCore(partition, clock()),
        account_id,
        operation: batches.newOperation(),
        tasks: group.map(({ task }) => task),
        place: page_place,
      });
    try {
      const place = await placement.place(() => placement.forTray(account_id, group.length), create);
      if (place === null) throw new Error('no idempotency key was given, so none can be taken');
      return { core: place.core, index: place.first };
    } catch (error) {
      return { error };
    }
  }
}

/** Ends with the first turn of the loop that brings nothing more, or when there is enough. */
async function gathered(waiting: readonly Waiting[]): Promise<void> {
  const until_ms = monotonicMs() + GATHER_MS_MAX;
  let before: number;
  do {
    before = waiting.length;
    await endOfTurn();
  } while (waiting.length > before && waiting.length < TRAY_GROUP_TASKS_MAX && monotonicMs() < until_ms);
}

/** When the loop has looked at all its sockets. */
function endOfTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function takeGroup(line: Waiting[]): Waiting[] {
  let bytes = 0;
  let count = 0;
  while (count < line.length && count < TRAY_GROUP_TASKS_MAX && bytes < TRAY_GROUP_BYTES_MAX) {
    const { head, payload } = (line[count] as Waiting).task;
    bytes += head.length + (payload?.length ?? 0);
    count += 1;
  }
  return line.splice(0, count);
}
