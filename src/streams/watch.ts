// One watched batch: from hints and looks to frames.
//
// A hint tells how the batch stood right after a change, and which tasks ended with it; hints are numbered. They are
// merged: at most one frame of progress each FLUSH_MS, always of the newest state. Every few seconds the batch is read
// (a look), so that a lost hint, or a lost end, shows: where a number is missing, the next frame is a fresh snapshot.
//
//   state     of the newest hint or look, by number: so numbers in frames never go back
//   hint      number of the last hint that came in; `owed`: a look has seen that there are more, up to here
//   ended     tasks that ended and are not told yet, only kept while somebody wants them
import type { BatchRow } from '../store/batches.ts';
import type { EndedRun, Hint, Look } from '../store/streams.ts';
import { Ended, type EndedTask, untold } from './ended.ts';
import type { StreamEnd } from './messages.ts';
import { type Post, Topic } from './topic.ts';

/** What frames show; given by who knows how a batch is presented. */
export interface Views {
  batch(row: BatchRow): object;
  progress(row: BatchRow): object;
  task(core: string, task: EndedTask, result: string | null): object;
}

export interface WatchHost {
  readonly views: Views;
  /** Between two looks. */
  readonly look_ms: number;
  readonly post: Post;
  look(core: string, tasks: boolean, streams: readonly string[]): Promise<Look>;
  results(batch: BatchRow, indexes: readonly number[]): Promise<Map<number, string>>;
  /** Tasks that ended with their batch, null where they are more than `max`. */
  stopped(batch: BatchRow, max: number): Promise<Pick<EndedRun, 'from' | 'tasks'>[] | null>;
  /** Counts bytes that were sent to the main thread; false while it has too many that it did not pass on. */
  sent(bytes: number): boolean;
  /** A look or a read failed; it will be repeated. */
  failed(core: string, error: unknown): void;
  /** These streams have no part in it any more; their places are free where `freed`. */
  gone(streams: readonly string[], freed: boolean): void;
}

/** A little over a twentieth of a second: no second sees more than 20 frames of progress. */
const FLUSH_MS = 52;
/** After a failure, or where a look has seen more than the hints tell. */
const LOOK_SOON_MS = 300;
/** Ended tasks that are told at once, about 128 KiB, and the pause to the next: a burst is not what makes a reader slow. */
const TASKS_PER_FLUSH = 500;
const TASKS_PAUSE_MS = 5;
/** Hints that may come before the first look is answered. */
const EARLY_MAX = 1_000;

export class Watch {
  readonly core: string;
  readonly #host: WatchHost;
  readonly #plain: Topic;
  readonly #detailed: Topic;
  /** Stream → whether it wants tasks. */
  readonly #streams = new Map<string, boolean>();
  /** Streams that wait for their first frame. */
  readonly #joining = new Set<string>();
  #gap_for_joining = false;
  #state: BatchRow | null = null;
  #state_number = 0;
  /** Tasks that the segments known to `#state` cover. */
  #covered = 0;
  #hint = 0;
  #owed = 0;
  #early: Hint[] = [];
  readonly #ended = new Ended();
  /** By the hints so far it was cancelled or has expired. */
  #stopped = false;
  /** When, where the tasks that ended by that are still to be told; null where none are. Asked for again at the end: some came back since. */
  #stopped_at_ms: number | null = null;
  /** Which of them were told; null where nobody is to be told, or all who watch know them from a snapshot. */
  #told_stopped: Set<number> | null = null;
  #changed = false;
  #gap = false;
  #told_at_ms = Number.NEGATIVE_INFINITY;
  #paused_until_ms = 0;
  #flush_timer: NodeJS.Timeout | null = null;
  #flushing = false;
  #looking = false;
  #look_again = false;
  #look_timer: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(core: string, host: WatchHost) {
    this.core = core;
    this.#host = host;
    this.#plain = new Topic(core, host.post);
    this.#detailed = new Topic(`${core}+`, host.post);
  }

  get streams(): readonly string[] {
    return [...this.#streams.keys()];
  }

  /** `behind`: see messages.ts. Its first frame follows the next look. */
  open(stream: string, tasks: boolean, behind: number | null): void {
    this.#streams.set(stream, tasks);
    this.#joining.add(stream);
    if (behind !== null) {
      // Frames may have been lost on the way between two lives: theirs is a snapshot with the next number.
      this.#topicOf(tasks).goOnFrom(behind + 1);
      this.#gap_for_joining = true;
    }
  }

  leave(stream: string): void {
    this.#joining.delete(stream);
    this.#topicOf(this.#streams.get(stream) ?? false).leave(stream);
    this.#streams.delete(stream);
  }

  close(): void {
    this.#closed = true;
    if (this.#flush_timer !== null) clearTimeout(this.#flush_timer);
    if (this.#look_timer !== null) clearTimeout(this.#look_timer);
  }

  hint(hint: Hint): void {
    if (this.#state === null) {
      if (this.#early.length < EARLY_MAX) this.#early.push(hint);
      return;
    }
    if (hint.number <= this.#hint) return;
    if (hint.number > this.#hint + 1) this.#gap = true;
    this.#hint = hint.number;
    if (this.#detailed.size > 0) this.#keepEnded(hint);
    this.#followStop(hint);
    if (hint.number > this.#state_number) {
      this.#state = { ...this.#state, ...hint.state };
      this.#state_number = hint.number;
    }
    this.#changed = true;
    this.#flushSoon();
  }

  #followStop({ state }: Hint): void {
    const begins = isStopped(state) && !this.#stopped;
    this.#stopped = isStopped(state);
    // A new round: what runs in it may end so again.
    if (!this.#stopped || this.#detailed.size === 0) this.#told_stopped = null;
    else if (begins) this.#told_stopped = new Set();
    if (this.#told_stopped !== null && (begins || state.finished_ms !== null)) this.#stopped_at_ms = state.updated_ms;
  }

  #keepEnded({ ended, state }: Hint): void {
    for (const run of ended) {
      if (this.#ended.add(run, state.updated_ms)) continue;
      this.#gap = true;
      return;
    }
  }

  /** Reads the batch now, or once more where it is being read. */
  async look(): Promise<void> {
    if (this.#closed) return;
    this.#look_again = this.#looking;
    if (this.#looking) return;
    this.#looking = true;
    if (this.#look_timer !== null) clearTimeout(this.#look_timer);
    const joining = [...this.#joining];
    const hint_before = this.#hint;
    const wants_tasks = [...this.#streams.values()].includes(true);
    let next_ms = this.#host.look_ms;
    try {
      const look = await this.#host.look(this.core, wants_tasks, this.streams);
      if (this.#closed) return;
      this.#take(look, hint_before);
      for (const stream of joining) this.#join(stream);
      if (this.#owed > this.#hint) next_ms = Math.min(next_ms, LOOK_SOON_MS);
    } catch (error) {
      this.#host.failed(this.core, error);
      next_ms = Math.min(next_ms, LOOK_SOON_MS);
    } finally {
      this.#looking = false;
    }
    if (this.#closed) return;
    if (this.#look_again) return this.look();
    this.#look_timer = setTimeout(() => void this.look(), next_ms);
  }

  #take({ hint, batch, lost }: Look, hint_before: number): void {
    if (lost.length > 0) {
      for (const stream of lost) {
        this.leave(stream);
        this.#host.post({ type: 'end_one', stream, end: 'crowded' }, []);
      }
      this.#host.gone(lost, false);
    }
    if (batch === null) return this.#endGone();
    if (this.#state === null) {
      this.#adopt(batch, hint);
      this.#hint = hint;
      this.#stopped = isStopped(batch);
      for (const early of this.#early.splice(0)) this.hint(early);
    } else if (hint < hint_before || (hint === this.#hint && differs(batch, this.#state))) {
      // Redis has lost its latest writes (a failover), or nobody was told while the watch had lapsed.
      this.#adopt(batch, hint);
      this.#hint = hint;
      this.#gap = true;
    } else {
      // What the look before had seen should have come in since.
      if (this.#owed > this.#hint) {
        this.#hint = this.#owed;
        this.#gap = true;
      }
      this.#owed = hint;
      if (hint >= this.#state_number) this.#adopt(batch, hint);
    }
    // The snapshot that follows tells of what a hint would have told.
    if (this.#gap) this.#stopped = isStopped(batch);
    this.#flushSoon();
  }

  #adopt(batch: BatchRow, number: number): void {
    if (this.#state !== null && differs(batch, this.#state)) this.#changed = true;
    this.#state = batch;
    this.#state_number = number;
    this.#covered = batch.total;
  }

  #join(stream: string): void {
    const tasks = this.#streams.get(stream);
    if (tasks === undefined || this.#state === null) return;
    this.#joining.delete(stream);
    this.#topicOf(tasks).join(stream, this.#snapshot(this.#state, this.#gap_for_joining));
    if (this.#joining.size === 0) this.#gap_for_joining = false;
  }

  #snapshot(state: BatchRow, gap: boolean): string {
    return JSON.stringify({ type: 'snapshot', batch: this.#host.views.batch(state), ...(gap ? { gap: true } : {}) });
  }

  #topicOf(tasks: boolean): Topic {
    return tasks ? this.#detailed : this.#plain;
  }

  #flushSoon(): void {
    if (this.#flush_timer !== null || this.#flushing || this.#closed) return;
    const now_ms = performance.now();
    const wait_ms = this.#ended.size > 0 ? TASKS_PAUSE_MS : this.#told_at_ms + FLUSH_MS - now_ms;
    this.#flush_timer = setTimeout(
      () => {
        this.#flush_timer = null;
        void this.#flush();
      },
      Math.max(0, wait_ms, this.#paused_until_ms - now_ms),
    );
  }

  async #flush(): Promise<void> {
    this.#flushing = true;
    try {
      // Where the main thread is behind, what is new is merged meanwhile.
      if (this.#host.sent(0)) await this.#flushNow();
      else this.#paused_until_ms = performance.now() + FLUSH_MS;
    } catch (error) {
      this.#host.failed(this.core, error);
      this.#paused_until_ms = performance.now() + LOOK_SOON_MS;
    }
    this.#flushing = false;
    const more = this.#changed || this.#gap || this.#ended.size > 0 || this.#stopped_at_ms !== null;
    if (more || this.#over) this.#flushSoon();
  }

  /** Whether all that is to be told of a batch that has ended is its end. */
  get #over(): boolean {
    if (this.#streams.size === this.#joining.size || this.#ended.size > 0 || this.#stopped_at_ms !== null) return false;
    return this.#state?.finished_ms != null && (this.#hint >= this.#owed || this.#detailed.size === 0);
  }

  async #flushNow(): Promise<void> {
    await this.#flushTasks();
    const state = this.#state;
    if (this.#closed || state === null) return;
    const over = this.#over;
    const now_ms = performance.now();
    if (this.#gap || (this.#changed && !over && now_ms >= this.#told_at_ms + FLUSH_MS)) {
      this.#addToAll(this.#gap ? this.#snapshot(state, true) : this.#progress(state, 'progress'));
      this.#told_at_ms = now_ms;
      this.#gap = false;
      this.#changed = false;
    }
    if (over) this.#addToAll(this.#progress(state, 'finished'));
    this.#host.sent(this.#plain.flush() + this.#detailed.flush());
    if (over) this.#end('finished');
  }

  /** What ended since the last time, with results; where they cannot be read it is told the next time. */
  async #flushTasks(): Promise<void> {
    await this.#flushStopped();
    if (this.#detailed.size === 0) this.#ended.drop(this.#ended.size);
    if (this.#ended.size === 0) return;
    const ended = this.#ended.first(TASKS_PER_FLUSH);
    const results = await this.#resultsOf(ended);
    for (const task of ended) {
      const view = this.#host.views.task(this.core, task, results.get(task.index) ?? null);
      this.#detailed.add(JSON.stringify({ type: 'task', task: view }));
    }
    this.#ended.drop(ended.length);
    this.#host.sent(this.#detailed.flush());
  }

  /** Those that ended with their batch are told as those before them are. */
  async #flushStopped(): Promise<void> {
    const at_ms = this.#stopped_at_ms;
    // A hint that comes meanwhile asks again.
    this.#stopped_at_ms = null;
    if (at_ms === null || this.#detailed.size === 0) return;
    await this.#keepStopped(at_ms).catch((error: unknown) => {
      this.#stopped_at_ms ??= at_ms;
      throw error;
    });
  }

  async #keepStopped(at_ms: number): Promise<void> {
    // As it is now: hints do not say what of a round is not dealt yet, nor what was added.
    const { batch } = await this.#host.look(this.core, true, this.streams);
    const runs = batch !== null && isStopped(batch) ? await this.#host.stopped(batch, this.#ended.room) : null;
    const told = this.#told_stopped;
    if (batch === null || runs === null || told === null || this.#state === null) {
      this.#gap = true;
      return;
    }
    this.#state = { ...this.#state, bases: batch.bases, undealt: batch.undealt };
    this.#covered = batch.total;
    const status = batch.status === 'expired' ? 'failed' : 'cancelled';
    for (const run of runs.flatMap((one) => untold(one, told))) {
      if (!this.#ended.add({ ...run, status, with_batch: true }, at_ms)) this.#gap = true;
    }
  }

  async #resultsOf(ended: readonly EndedTask[]): Promise<Map<number, string>> {
    // What a round has not reached has the results of the one before.
    const undealt = this.#state?.undealt;
    const old = ({ index, with_batch }: EndedTask): boolean =>
      with_batch && undealt != null && undealt.from <= index && index <= undealt.to;
    const indexes = ended.filter((task) => !old(task)).map(({ index }) => index);
    if (indexes.some((index) => index >= this.#covered)) {
      // Tasks were added since the last look: only a look tells in which segments they lie.
      const look = await this.#host.look(this.core, true, this.streams);
      if (look.batch !== null && this.#state !== null) {
        this.#state = { ...this.#state, bases: look.batch.bases };
        this.#covered = look.batch.total;
      }
    }
    return this.#state === null ? new Map() : this.#host.results(this.#state, indexes);
  }

  #progress(state: BatchRow, type: 'progress' | 'finished'): string {
    return JSON.stringify({ type, ...this.#host.views.progress(state) });
  }

  #addToAll(body: string): void {
    this.#plain.add(body);
    this.#detailed.add(body);
  }

  /** Of a batch that is not there any more; who has seen all but its end is told that it had ended. */
  #endGone(): void {
    if (this.#state !== null && this.#over) {
      this.#addToAll(this.#progress(this.#state, 'finished'));
      this.#host.sent(this.#plain.flush() + this.#detailed.flush());
      this.#end('finished');
    }
    if (this.#streams.size > 0) this.#end('deleted');
  }

  /** For everyone who has begun; who has not, begins with what comes next: a snapshot, then the end. */
  #end(end: StreamEnd): void {
    const ended = this.streams.filter((stream) => end === 'deleted' || !this.#joining.has(stream));
    for (const topic of [this.#plain, this.#detailed]) {
      if (topic.size > 0) this.#host.post({ type: 'end', topic: topic.name, end }, []);
    }
    for (const stream of ended) {
      if (this.#joining.has(stream)) this.#host.post({ type: 'end_one', stream, end }, []);
      this.leave(stream);
    }
    this.#host.gone(ended, true);
  }
}

function isStopped({ status }: Pick<BatchRow, 'status'>): boolean {
  return status === 'cancelled' || status === 'expired';
}

/** Whether callers would see a difference. */
function differs(a: BatchRow, b: BatchRow): boolean {
  return (
    a.status !== b.status ||
    a.total !== b.total ||
    a.completed !== b.completed ||
    a.failed !== b.failed ||
    a.cancelled !== b.cancelled ||
    a.finished_ms !== b.finished_ms
  );
}
