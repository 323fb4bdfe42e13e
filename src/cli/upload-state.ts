// How far an upload has come, in a file beside the one that is uploaded: written before anything is sent, and after each
// piece that was accepted. A piece is sent under a key made of the upload's id and the place of the piece, so one whose
// answer was lost is sent again and happens once.
import { createHash, type Hash, randomUUID } from 'node:crypto';
import { createReadStream, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { Failure } from './command.ts';

/** What the batch is made with, beside its tasks. */
export interface BatchHead {
  description?: string;
  labels?: Record<string, string>;
  notifications?: Record<string, { url: string }>;
  expiration?: number;
}

export interface UploadState {
  version: 1;
  upload_id: string;
  url: string;
  head: BatchHead;
  atomic: boolean;
  piece_bytes: number;
  started_at: string;
  batch_id: string | null;
  /** What the service has: bytes of the file, its lines, tasks made of them, and lines that it refused. */
  offset: number;
  lines: number;
  tasks: number;
  rejected: number;
  /** SHA-256 of those bytes. */
  sha256: string;
}

/** As long as the service knows an Idempotency-Key, less an hour. */
const AGE_MS_MAX = 23 * 3_600_000;

export function newState(options: Pick<UploadState, 'url' | 'head' | 'atomic' | 'piece_bytes'>): UploadState {
  return {
    version: 1,
    upload_id: randomUUID(),
    ...options,
    started_at: new Date().toISOString(),
    batch_id: null,
    offset: 0,
    lines: 0,
    tasks: 0,
    rejected: 0,
    sha256: createHash('sha256').digest('hex'),
  };
}

export function statePath(file: string): string {
  return `${file}.sluice-upload`;
}

/** null where there is none. Throws a Failure where it is none of ours, or too old to be gone on with. */
export function readState(path: string, url: string, now_ms: number): UploadState | null {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch {
    return null;
  }
  const state = parseState(text);
  if (state === null) throw unusable(path, 'is not understood');
  if (state.url !== url) throw unusable(path, `is of an upload to ${state.url}`);
  if (now_ms - Date.parse(state.started_at) > AGE_MS_MAX)
    throw unusable(path, `is of an upload begun at ${state.started_at}, too long ago to go on without sending something twice`);
  return state;
}

function parseState(text: string): UploadState | null {
  try {
    const value = JSON.parse(text) as Partial<UploadState> | null;
    const known = value?.version === 1 && typeof value.upload_id === 'string' && typeof value.offset === 'number';
    return known ? (value as UploadState) : null;
  } catch {
    return null;
  }
}

export function writeState(path: string, state: UploadState): void {
  writeFileSync(`${path}.new`, JSON.stringify(state));
  renameSync(`${path}.new`, path);
}

export function removeState(path: string): void {
  rmSync(path, { force: true });
}

/** The hash of what was sent, ready to go on. Throws a Failure where that part of the file is not what it was. */
export async function hashOfSent(file: string, path: string, { offset, sha256 }: UploadState): Promise<Hash> {
  const hash = createHash('sha256');
  if (offset > 0) for await (const block of createReadStream(file, { end: offset - 1 })) hash.update(block as Buffer);
  if (hash.copy().digest('hex') !== sha256) throw unusable(path, `is of another text: the first ${offset} bytes of ${file} have changed`);
  return hash;
}

function unusable(path: string, why: string): Failure {
  return new Failure(`${path} ${why}. --restart begins a new batch; the one that was begun stays as it is.`, { code: 'upload_state' });
}
