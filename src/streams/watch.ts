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
import type { StreamEnd } from './messages.ts';
import { type Post, Topic } from './topic.ts';

/** A task that ended, before its result is known. */
export interface EndedTask {
  index: number;
  status: EndedRun['status'];
  at_ms: number;
}

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
/** Ended tasks that wait; with more of them the rest is told by a snapshot. */
const ENDED_MAX = 100_000;
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
  #ended: { run: EndedRun; at_ms: number }[] = [];
  #ended_count = 0;
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
    if (hint.number > this.#state_number) {
      this.#state = { ...this.#state, ...hint.state };
      this.#state_number = hint.number;
    }
    this.#changed = true;
    this.#flushSoon();
  }

  #keepEnded({ ended, state }: Hint): void {
    for (const run of ended) {
      if (this.#ended_count + run.tasks > ENDED_MAX) {
        this.#gap = true;
        return;
      }
      this.#ended.push({ run, at_ms: state.updated_ms });
      this.#ended_count += run.tasks;
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
    if (batch === null) return this.#end('deleted');
    if (this.#state === null) {
      this.#adopt(batch, hint);
      this.#hint = hint;
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
    const wait_ms = this.#ended.length > 0 ? TASKS_PAUSE_MS : this.#told_at_ms + FLUSH_MS - now_ms;
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
    if (this.#changed || this.#gap || this.#ended.length > 0 || this.#over) this.#flushSoon();
  }

  /** Whether all that is to be told of a batch that has ended is its end. */
  get #over(): boolean {
    if (this.#streams.size === this.#joining.size || this.#ended.length > 0) return false;
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
    if (this.#detailed.size === 0) this.#dropEnded(this.#ended_count);
    if (this.#ended.length === 0) return;
    const ended = this.#nextEnded();
    const results = await this.#resultsOf(ended);
    for (const task of ended) {
      const view = this.#host.views.task(this.core, task, results.get(task.index) ?? null);
      this.#detailed.add(JSON.stringify({ type: 'task', task: view }));
    }
    this.#dropEnded(ended.length);
    this.#host.sent(this.#detailed.flush());
  }

  #nextEnded(): EndedTask[] {
    const tasks: EndedTask[] = [];
    for (const { run, at_ms } of this.#ended) {
      for (let k = 0; k < run.tasks; k++) {
        if (tasks.length === TASKS_PER_FLUSH) return tasks;
        tasks.push({ index: run.from + k, status: run.status, at_ms });
      }
    }
    return tasks;
  }

  #dropEnded(count: number): void {
    this.#ended_count -= count;
    let left = count;
    while (left > 0) {
      const first = this.#ended[0];
      if (first === undefined) return;
      if (first.run.tasks > left) {
        first.run = { ...first.run, from: first.run.from + left, tasks: first.run.tasks - left };
        return;
      }
      left -= first.run.tasks;
      this.#ended.shift();
    }
  }

  async #resultsOf(ended: readonly EndedTask[]): Promise<Map<number, string>> {
    const indexes = ended.filter(({ status }) => status !== 'cancelled').map(({ index }) => index);
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
