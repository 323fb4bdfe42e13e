// Uploads a file of tasks into one batch, piece by piece: the first piece creates the batch, held, so that it cannot end
// in between; the last thing is its release. The next piece is read while one is on its way.
import type { Hash } from 'node:crypto';
import type { Batch, Client } from '../client/index.ts';
import { SluiceError } from '../client/index.ts';
import { Failure } from './command.ts';
import { type Piece, pieces } from './lines.ts';
import type { UploadState } from './upload-state.ts';

export interface UploadOptions {
  client: Client;
  state: UploadState;
  /** The bytes from `state.offset` on. */
  source: AsyncIterable<Buffer>;
  /** Of the bytes before; null where nothing is kept. */
  hash: Hash | null;
  signal: AbortSignal;
  /** After each piece that was accepted. */
  onPiece(state: UploadState): void;
  /** A line that was refused, where the others are taken. */
  onRejected(line: number, message: string): void;
}

const CLOSE = Buffer.from(']}');

/** Resolves with the released batch. `state` is moved on. */
export async function upload({ client, state, source, hash, signal, onPiece, onRejected }: UploadOptions): Promise<Batch> {
  const reader = pieces(source, { from: state.offset, line: state.lines + 1, bytes_max: state.piece_bytes });
  let next = ahead(reader);
  while (true) {
    const { value: piece, done } = await next;
    if (done === true) break;
    next = ahead(reader);
    if (piece.values.length > 0) await send(client, state, piece, signal, onRejected);
    hash?.update(piece.raw);
    state.offset = piece.to;
    state.lines = piece.next_line - 1;
    if (hash !== null) state.sha256 = hash.copy().digest('hex');
    onPiece(state);
  }
  if (state.batch_id === null) throw new Failure('There is no task in the file.', { code: 'no_tasks' });
  return client.releaseBatch(state.batch_id, { idempotency_key: `${state.upload_id}-release`, signal });
}

/** Reads on; a line that is wrong is told when its turn comes, and what is before it is sent. */
function ahead(reader: AsyncGenerator<Piece, void, undefined>): Promise<IteratorResult<Piece, void>> {
  const next = reader.next();
  next.catch(() => {});
  return next;
}

async function send(
  client: Client,
  state: UploadState,
  piece: Piece,
  signal: AbortSignal,
  onRejected: (line: number, message: string) => void,
): Promise<void> {
  const options = { idempotency_key: `${state.upload_id}-${piece.from}`, signal };
  try {
    const unused = { tasks: [] };
    const reply =
      state.batch_id === null
        ? await client.createBatch(unused, { ...options, raw_body: bodyOf(createHead(state), piece) })
        : await client.addTasks(state.batch_id, unused, { ...options, raw_body: bodyOf({ atomic: state.atomic }, piece) });
    state.batch_id = reply.id;
    const rejected = reply.errors ?? [];
    for (const { index, path, message } of rejected) onRejected(piece.line_numbers[index] ?? 0, `${path} ${message}`);
    const refused = new Set(rejected.map(({ index }) => index)).size;
    state.rejected += refused;
    state.tasks += piece.line_numbers.length - refused - (reply.duplicates ?? 0);
  } catch (error) {
    throw error instanceof SluiceError ? inFile(error, state, piece) : error;
  }
}

function createHead({ head, atomic }: UploadState): Record<string, unknown> {
  const { expiration, ...rest } = head;
  return { ...rest, options: { atomic, hold: true, ...(expiration === undefined ? {} : { expiration }) } };
}

/** The head with `tasks` in it: their bytes are not touched. */
function bodyOf(head: Record<string, unknown>, { values }: Piece): Uint8Array<ArrayBuffer> {
  const open = Buffer.from(`${JSON.stringify(head).slice(0, -1)},"tasks":[`);
  return Buffer.concat([open, ...values, CLOSE]);
}

const FAULTS_SHOWN_MAX = 20;

/** The refusal in terms of the file: lines for indexes, and what to do. */
function inFile(error: SluiceError, { batch_id }: UploadState, { line_numbers, first_line }: Piece): Error {
  const where = batch_id === null ? 'No batch was made.' : `${batch_id} has the lines before ${first_line}, and is held.`;
  if (error.code === 'idempotency_key_reused')
    return new Failure(`The part from line ${first_line} on was sent before with another text, so the file has changed. ${where}`, error);
  if (error.code === 'payload_too_large')
    return new Failure(`A piece is larger than the service takes: give a smaller --piece-bytes, with --restart. ${where}`, error);
  const faults = faultsOf(error);
  if (faults.length === 0) return error;
  const lines = faults.slice(0, FAULTS_SHOWN_MAX).map(({ path = '', message = '' }) => {
    const [, index, rest = ''] = /^\/tasks\/(\d+)(.*)$/.exec(path) ?? [];
    return index === undefined ? `  ${path} ${message}` : `  line ${line_numbers[Number(index)] ?? '?'}: ${rest} ${message}`.trimEnd();
  });
  const more = faults.length > FAULTS_SHOWN_MAX ? [`  and ${faults.length - FAULTS_SHOWN_MAX} more`] : [];
  const of_lines = faults.some(({ path = '' }) => path.startsWith('/tasks/'));
  const advice = of_lines ? 'Mend the lines and run it again, or let it take the valid ones alone (--restart --skip-invalid).' : '';
  return new Failure([error.message, ...lines, ...more, `${where} ${advice}`.trimEnd()].join('\n'), {
    code: error.code,
    details: error.details,
  });
}

/** What is wrong with which task: all of it, or the first that must not be called. */
function faultsOf({ details }: SluiceError): { path?: string; message?: string }[] {
  if (Array.isArray(details['errors'])) return details['errors'] as { path?: string; message?: string }[];
  return typeof details['path'] === 'string' ? [{ path: details['path'] }] : [];
}
