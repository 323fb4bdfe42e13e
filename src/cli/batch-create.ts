// `sluice batch create`: one batch from a file of any size.
import { createReadStream, statSync } from 'node:fs';
import { type Batch, SluiceError } from '../client/index.ts';
import { follow } from './batch.ts';
import { type Command, EXIT, type ExitCode, Failure, type Given, UsageError } from './command.ts';
import { number, print, show, warn } from './output.ts';
import { ProgressLine } from './progress.ts';
import { clientOf, urlOf } from './server.ts';
import { upload } from './upload.ts';
import { type BatchHead, hashOfSent, newState, readState, removeState, statePath, type UploadState, writeState } from './upload-state.ts';

/** Half of what the service takes at most; 60 of them a minute go into one batch. */
const PIECE_BYTES = 8 * 1_048_576;
const READ_BYTES = 262_144;
/** The service asks for patience where its limits are reached; an upload has it. */
const RETRIES_MAX = 30;
const REJECTED_SHOWN_MAX = 20;
const EVENTS = ['on_progress', 'on_finish', 'on_success', 'on_death', 'on_complete'];

export const BATCH_CREATE: Command = {
  name: 'batch create',
  words: [],
  summary: 'Create a batch from a file with one task on each line.',
  about:
    'Each line is a task as the API takes it: `{"target": {"url": "https://example.com/hook"}, "payload": {"n": 1}}`. The file is sent in pieces, into a batch that is held until the last one is there. How far it has come is kept beside the file (`FILE.sluice-upload`): after an interruption the same command goes on where it stopped, and nothing is created twice. `-` reads from standard input, which cannot be gone on with.',
  options: {
    file: { type: 'string', short: 'f', value: 'FILE', required: true, meaning: 'The file; `-` is standard input.' },
    description: { type: 'string', value: 'TEXT', meaning: 'For people.' },
    label: { type: 'string', value: 'KEY=VALUE', multiple: true, meaning: 'A label, by which lists can be filtered.' },
    notify: { type: 'string', value: 'EVENT=URL', multiple: true, meaning: `Where to send a notification: ${EVENTS.join(', ')}.` },
    expiration: { type: 'string', value: 'HOURS', meaning: 'When the batch expires.' },
    'skip-invalid': { type: 'boolean', meaning: 'Create the valid tasks and report the others, instead of stopping.' },
    restart: { type: 'boolean', meaning: 'Begin a new batch where an upload of this file was interrupted.' },
    'piece-bytes': { type: 'string', value: 'N', meaning: `Bytes of the file sent in one request; ${PIECE_BYTES} where not given.` },
    watch: { type: 'boolean', meaning: 'Then follow the batch until it ends.' },
  },
  needs: 'server',
  run: batchCreate,
};

async function batchCreate(given: Given): Promise<ExitCode> {
  const file = given.must('file');
  const client = clientOf(given, { retries_max: RETRIES_MAX });
  const stdin = file === '-';
  const size = stdin ? null : sizeOf(file);
  const path = stdin ? null : statePath(file);
  const fresh = newState({
    url: urlOf(given),
    head: headOf(given),
    atomic: !given.flag('skip-invalid'),
    piece_bytes: given.number('piece-bytes', { min: 1_024, max: 256 * 1_048_576, whole: true }) ?? PIECE_BYTES,
  });
  const begun = path === null || given.flag('restart') ? null : readState(path, fresh.url, Date.now());
  const state = begun ?? fresh;
  const hash = path === null ? null : await hashOfSent(file, path, state);
  if (path !== null) writeState(path, state);
  if (begun !== null) warn(`Going on at line ${begun.lines + 1}${begun.batch_id === null ? '' : `, with ${begun.batch_id}`}.`);

  const line = new ProgressLine(!given.json);
  const started = { ms: performance.now(), tasks: state.tasks };
  const interrupted = new AbortController();
  const onSignal = (): void => interrupted.abort();
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal);
  let rejected = 0;
  try {
    const batch = await upload({
      client,
      state,
      source: stdin ? process.stdin : createReadStream(file, { start: state.offset, highWaterMark: READ_BYTES }),
      hash,
      signal: interrupted.signal,
      onPiece: () => {
        if (path !== null) writeState(path, state);
        line.draw(size === null ? 0 : state.offset / Math.max(1, size), () => pace(state, started, size));
      },
      onRejected: (at, message) => {
        rejected += 1;
        line.clear();
        if (rejected <= REJECTED_SHOWN_MAX) warn(`Line ${at} was not taken: ${message}`);
      },
    });
    line.clear();
    if (path !== null) removeState(path);
    report(given, batch, state, performance.now() - started.ms);
  } catch (error) {
    line.clear();
    // Refused for certain: there is nothing to go on with.
    if (path !== null && state.batch_id === null && (error instanceof Failure || error instanceof SluiceError)) removeState(path);
    if (!interrupted.signal.aborted) throw error;
    const way = path === null ? '' : ' Run the same command again to go on.';
    throw new Failure(`Interrupted at line ${state.lines + 1}.${way}`, { exit: EXIT.interrupted, code: 'interrupted' });
  } finally {
    process.removeListener('SIGINT', onSignal).removeListener('SIGTERM', onSignal);
  }
  const end = given.flag('watch') && state.batch_id !== null ? await follow(given, client, state.batch_id, false) : EXIT.done;
  return state.rejected > 0 ? EXIT.bad_end : end;
}

function sizeOf(file: string): number {
  const stat = statSync(file, { throwIfNoEntry: false });
  if (stat === undefined) throw new Failure(`There is no file ${file}.`, { code: 'no_file' });
  if (!stat.isFile()) throw new Failure(`${file} is not a file; \`-f -\` reads from standard input.`, { code: 'no_file' });
  return stat.size;
}

function headOf(given: Given): BatchHead {
  const description = given.text('description');
  const expiration = given.number('expiration', { min: 0, max: 720 });
  if (expiration === 0) throw new UsageError('--expiration must be more than 0 hours.');
  const labels = pairs(given, 'label');
  const notifications = pairs(given, 'notify');
  const strange = Object.keys(notifications).find((event) => !EVENTS.includes(event));
  if (strange !== undefined) throw new UsageError(`--notify: "${strange}" is no event; there are ${EVENTS.join(', ')}.`);
  return {
    ...(description === null ? {} : { description }),
    ...(expiration === null ? {} : { expiration }),
    ...(Object.keys(labels).length === 0 ? {} : { labels }),
    ...(Object.keys(notifications).length === 0
      ? {}
      : { notifications: Object.fromEntries(Object.entries(notifications).map(([event, url]) => [event, { url }])) }),
  };
}

function pairs(given: Given, option: string): Record<string, string> {
  const found = given.texts(option).map((text): [string, string] => {
    const at = text.indexOf('=');
    if (at < 1) throw new UsageError(`--${option} must be written as KEY=VALUE.`);
    return [text.slice(0, at), text.slice(at + 1)];
  });
  return Object.fromEntries(found);
}

function pace(state: UploadState, started: { ms: number; tasks: number }, size: number | null): string {
  const seconds = (performance.now() - started.ms) / 1_000;
  const rate = (state.tasks - started.tasks) / Math.max(0.001, seconds);
  const left_s = size === null || state.tasks === 0 || rate === 0 ? null : ((size / state.offset) * state.tasks - state.tasks) / rate;
  const left = left_s === null || left_s < 1 ? '' : `, ${number(left_s)} s left`;
  return `${number(state.tasks)} tasks, ${number(rate)}/s${left}`;
}

function report(given: Given, batch: Batch, state: UploadState, took_ms: number): void {
  if (given.flag('watch')) {
    if (!given.json) print(batch.id);
  } else show(given.json, batch, () => batch.id);
  if (given.json) return;
  const rejected = state.rejected > 0 ? `; ${number(state.rejected)} lines were not taken` : '';
  warn(`${number(state.tasks)} tasks in ${(took_ms / 1_000).toFixed(1)} s${rejected}.`);
}
