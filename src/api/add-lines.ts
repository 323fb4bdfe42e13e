// Adding tasks that come one a line: piece by piece as they arrive, each all or none, in constant memory.
//
//   pieces of a request   0…999   1000…1999   2000…2345      each is one add, as that of a JSON body
//   records of its key    at 0    at 1000     at 2000    at 2346: the answer
//
// With an Idempotency-Key each piece leaves a record beside the batch, in the step that adds it: named by the key and the number
// of its first line, with its fingerprint and its length. A repeat finds what is there, compares, and adds the rest. A piece that
// ends early, before a line that was refused, is found by its length, so the repeat may have that line mended.
//
// With `atomic=false` no line ends the request but one that is too long: bad ones are left out, and told with the answer.
import { createHash } from 'node:crypto';
import { ApiError } from '../base/errors.ts';
import { partitionOf } from '../base/id.ts';
import { BATCH_TASKS_MAX, LINES_BYTES_MAX, LINES_FAULTS_MAX, LINES_MAX } from '../base/limits.ts';
import { FAULTS_MAX } from '../schema/faults.ts';
import type { RejectedTask } from '../schema/types.gen.ts';
import type { BatchStatus } from '../store/batches.ts';
import { isUnavailable } from '../store/errors.ts';
import { finishKey, forgetKey, type IdemRecord, placeOfKey, readRecordBeside } from '../store/idempotency.ts';
import { addReady, coreOf, prepareBody, visible } from './batches.ts';
import type { Answer, Call } from './call.ts';
import type { ApiContext } from './context.ts';
import { whenDurable } from './durable.ts';
import { claim, type Keyed, keyedAs, printHead, recordArgs, replayed } from './idempotency.ts';
import { firstOf, isBlank, LineSource, type Lines, LineTooLong } from './line-source.ts';
import type { Ready, Refusal } from './prepare.ts';
import { type Counts, changeView } from './present.ts';

/** The fingerprint of the record behind the last line. */
const END = 'end';
/** Pieces at the beginning without a good line, where there is a key: as many as the longest batch has. */
const UNNOTED_MAX = BATCH_TASKS_MAX / LINES_MAX;

/** `pull` gives the body as it comes, null at its end. */
export async function addLines(context: ApiContext, call: Call, pull: () => Promise<Buffer | null>): Promise<Answer> {
  context.admit();
  if (call.head_faults.length > 0) throw new ApiError('validation_error', { errors: call.head_faults });
  const print = createHash('sha256')
    .update(printHead(call, 'addTasks'))
    .update(isPartial(call) ? 'good lines' : 'lines')
    .digest('base64url');
  const keyed = keyedAs(context, call, print);
  const claimed = keyed && (await claim(context, keyed));
  const upload = new Upload(context, call, pull);
  try {
    return await upload.run();
  } catch (error) {
    if (!(error instanceof ApiError || isUnavailable(error))) throw error;
    const told = upload.told(error);
    const untouched = upload.added === 0 && claimed?.known === false;
    if (keyed && claimed && untouched && told.status < 500) await forgetKey(context.client, keyed, claimed);
    throw told;
  }
}

/** What a piece's record says of it besides its fingerprint. */
interface PieceNote {
  lines: number;
  tasks: number;
  duplicates: number;
  /** Of lines that were left out: as many faults as there was room for, and those beyond. */
  faults?: RejectedTask[];
  omitted?: number;
}

class Upload {
  /** Tasks, by this request and those before it with the same key. */
  added = 0;
  #duplicates = 0;
  #faults: RejectedTask[] = [];
  #omitted = 0;
  /** Pieces without a good line before the first good one. */
  readonly #unnoted: [Keyed, PieceNote][] = [];
  #last: (Counts & { status: BatchStatus; updated_ms: number }) | null = null;
  #total = 0;
  readonly #context: ApiContext;
  readonly #call: Call;
  readonly #core: string;
  readonly #partial: boolean;
  readonly #source: LineSource;

  constructor(context: ApiContext, call: Call, pull: () => Promise<Buffer | null>) {
    this.#context = context;
    this.#call = call;
    this.#core = coreOf(call);
    this.#partial = isPartial(call);
    this.#source = new LineSource(pull, { lines: LINES_MAX, bytes: LINES_BYTES_MAX });
  }

  async run(): Promise<Answer> {
    this.#total = (await visible(this.#context, this.#call)).total;
    for (let ahead = await this.#ahead(); ahead !== null; ahead = await this.#ahead()) {
      const record = await this.#recordAt(this.#source.line);
      if (record !== null) this.#source.take(ahead, this.#known(ahead, record));
      else if (isBlank(ahead.bytes)) this.#source.take(ahead, ahead.ends.length);
      else if (await this.#add(ahead)) this.#source.take(ahead, ahead.ends.length);
    }
    return this.#answer();
  }

  /** The refusal, with what was added before it. */
  told(error: unknown): ApiError {
    const refusal = error instanceof ApiError ? error : new ApiError('unavailable', {}, { retry_after_s: 1 });
    const { row, message, retry_after_s } = refusal;
    const details = { ...refusal.details, added: this.added };
    return new ApiError(row, details, { message, ...(retry_after_s === null ? {} : { retry_after_s }) });
  }

  async #ahead(): Promise<Lines | null> {
    try {
      return await this.#source.ahead();
    } catch (error) {
      if (!(error instanceof LineTooLong)) throw error;
      throw new ApiError('payload_too_large', { path: `/${error.line}`, max_line_bytes: LINES_BYTES_MAX });
    }
  }

  /** How many lines an earlier request with this key has added here: these. */
  #known(ahead: Lines, { print, done }: IdemRecord): number {
    if (print === END || done === null) throw new ApiError('idempotency_key_reused');
    const { lines, tasks, duplicates, ...left_out } = JSON.parse(done.extra || done.reply) as PieceNote;
    if (lines > ahead.ends.length || printOf(firstOf(ahead, lines)) !== print) throw new ApiError('idempotency_key_reused');
    this.added += tasks;
    this.#duplicates += duplicates;
    this.#leaveOut(left_out);
    return lines;
  }

  /** Adds a piece, or what of it stands before a line that is refused, and throws then. False: somebody else has added something here. */
  async #add(ahead: Lines): Promise<boolean> {
    const prepared = await this.#prepare(ahead);
    if (prepared.ready !== null && !(await this.#addReady(prepared.lines, prepared.ready))) return false;
    if (prepared.refusal === null) return true;
    const { row, details, message } = prepared.refusal;
    throw new ApiError(row, details, { message });
  }

  /** As much of a piece as can be added, from its beginning, and why no more. */
  async #prepare(ahead: Lines): Promise<{ lines: Lines; ready: Ready | null; refusal: Refusal | null }> {
    let refusal: Refusal | null = null;
    // What is before the first fault can have one too, where that is found later; each time less is left.
    for (let lines = ahead; ; ) {
      const outcome = await this.#prepareOnce(lines, []);
      if (outcome.kind === 'ready') return { lines, ready: outcome, refusal };
      refusal = outcome;
      const before = (outcome.line ?? lines.first) - lines.first;
      if (before <= 0) return { lines, ready: null, refusal };
      lines = firstOf(lines, before);
      if (isBlank(lines.bytes)) return { lines, ready: null, refusal };
    }
  }

  async #prepareOnce({ first, bytes }: Lines, known_keys: readonly string[]): Promise<Ready | Refusal> {
    // A copy, since its memory may go to another thread.
    const body = Buffer.allocUnsafeSlow(bytes.length);
    bytes.copy(body);
    const { outcome } = await prepareBody(this.#context, this.#call, {
      what: 'lines',
      stage: null,
      body,
      first_line: first,
      partial: this.#partial,
      print_head: null,
      known_keys,
    });
    return outcome;
  }

  async #addReady(lines: Lines, ready: Ready): Promise<boolean> {
    if (this.#total + ready.tasks.count > BATCH_TASKS_MAX) {
      throw new ApiError('validation_error', {
        errors: [{ path: `/${lines.first}`, message: `a batch has at most ${BATCH_TASKS_MAX} tasks` }],
      });
    }
    this.#context.admit();
    const print = this.#call.idempotency_key === null ? '' : printOf(lines);
    const noteOf = (add: Ready): PieceNote => {
      const { tasks, duplicates } = add;
      return { lines: lines.ends.length, tasks: tasks.count, duplicates, ...this.#faultsOf(add) };
    };
    if (ready.tasks.count + ready.duplicates === 0) return this.#noneGood(this.#keyedAt(lines.first, print), noteOf(ready));
    const again = async (_: Uint8Array, known_keys: readonly string[]): Promise<Ready> => {
      const outcome = await this.#prepareOnce(lines, known_keys);
      if (outcome.kind === 'ready') return outcome;
      throw new ApiError(outcome.row, outcome.details, { message: outcome.message });
    };
    const idem = (add: Ready) => recordArgs(this.#keyedAt(lines.first, print), noteOf(add));
    const done = await addReady(this.#context, this.#call, ready, again, idem);
    if (done === null) return false;
    this.added += done.add.tasks.count;
    this.#duplicates += done.add.duplicates;
    this.#leaveOut(this.#faultsOf(done.add));
    this.#total = done.change.total;
    this.#last = done.change;
    return true;
  }

  /**
   * A piece without a good line is noted all the same, so that a repeat with another one in its place is found; but only once the request
   * has come to something, since one that is refused leaves no record.
   */
  async #noneGood(keyed: Keyed | null, note: PieceNote): Promise<boolean> {
    this.#leaveOut(note);
    if (keyed !== null) this.#unnoted.push([keyed, note]);
    if (this.added + this.#duplicates > 0) await this.#note();
    else if (this.#unnoted.length > UNNOTED_MAX) throw this.#noGood();
    return true;
  }

  async #note(): Promise<void> {
    for (const [keyed, note] of this.#unnoted.splice(0)) {
      await finishKey(this.#context.client, keyed, keyed.print, Buffer.from(JSON.stringify(note)));
    }
  }

  #noGood(): ApiError {
    const none = { path: '', message: 'must have at least one task' };
    const faults = this.#faults.slice(0, FAULTS_MAX).map(({ path, message }) => ({ path, message }));
    return new ApiError('validation_error', { errors: faults.length === 0 ? [none] : faults });
  }

  /** What is told of a piece's bad lines: the answer has a bound. */
  #faultsOf({ bad_lines }: Ready): Pick<PieceNote, 'faults' | 'omitted'> {
    if (!this.#partial) return {};
    const faults = bad_lines.slice(0, LINES_FAULTS_MAX - this.#faults.length);
    return { faults, omitted: bad_lines.length - faults.length };
  }

  #leaveOut({ faults = [], omitted = 0 }: Pick<PieceNote, 'faults' | 'omitted'>): void {
    this.#faults.push(...faults);
    this.#omitted += omitted;
  }

  async #answer(): Promise<Answer> {
    const { line } = this.#source;
    const record = await this.#recordAt(line);
    if (record !== null && record.print !== END) throw new ApiError('idempotency_key_reused');
    if (record?.done) return this.#safe(replayed({ body: Buffer.from(record.done.reply) }));
    if (this.added + this.#duplicates === 0) throw this.#noGood();
    await this.#note();
    const left_out = {
      ...(this.#partial ? { errors: this.#faults } : {}),
      ...(this.#omitted === 0 ? {} : { errors_omitted: this.#omitted }),
      ...(this.#duplicates === 0 ? {} : { duplicates: this.#duplicates }),
    };
    const body = Buffer.from(JSON.stringify({ ...(await this.#view()), ...left_out }));
    const keyed = this.#keyedAt(line, END);
    if (keyed !== null) await finishKey(this.#context.client, keyed, END, body);
    return this.#safe({ body });
  }

  async #view() {
    const { status, ...row } = this.#last ?? (await visible(this.#context, this.#call));
    return changeView(this.#core, status ?? 'pending', row);
  }

  async #safe(answer: Answer): Promise<Answer> {
    return whenDurable(this.#context, partitionOf(this.#core), answer);
  }

  async #recordAt(line: number): Promise<IdemRecord | null> {
    const keyed = this.#keyedAt(line, '');
    return keyed && readRecordBeside(this.#context.client, this.#core, keyed.idem_key);
  }

  /** The key of what begins at a line. Its record lies beside the batch. */
  #keyedAt(line: number, print: string): Keyed | null {
    const { account_id, idempotency_key } = this.#call;
    if (idempotency_key === null) return null;
    // No key of a caller has a line break.
    const { idem_key } = placeOfKey(account_id, `${idempotency_key}\n${line}`, this.#context.partitions.first);
    return { partition: partitionOf(this.#core), idem_key, print };
  }
}

function isPartial({ query }: Call): boolean {
  return query['atomic'] === false;
}

function printOf({ bytes }: Lines): string {
  return createHash('sha256').update(bytes).digest('base64url');
}
