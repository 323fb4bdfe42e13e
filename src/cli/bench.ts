// `sluice bench`: a known load on a deployment that runs, through its public API alone, and what came of it. What it calls
// must be named, since a load is a load on the target too; what it made is cancelled where it is stopped.
import { randomBytes } from 'node:crypto';
import { type Batch, type Client, SluiceError } from '../client/index.ts';
import { BenchReceiver } from './bench-receiver.ts';
import { type BenchReport, reportOf, reportText, type Sent } from './bench-report.ts';
import { type Command, durationMs, EXIT, type ExitCode, Failure, type Given, UsageError } from './command.ts';
import { number, show, warn } from './output.ts';
import { ProgressLine } from './progress.ts';
import { clientOf } from './server.ts';

const TASKS = 1_000;
const TASKS_MAX = 1_000_000;
const BATCH_TASKS = 100;
const BATCH_TASKS_MAX = 10_000;
const PAYLOAD_BYTES = 200;
const PAYLOAD_BYTES_MAX = 65_536;
/** Of one create; the service takes twice as much. */
const BODY_BYTES_MAX = 8 * 1_048_576;
const CREATES_IN_FLIGHT = 4;
/** The service asks for patience where its limits are reached. */
const RETRIES_MAX = 30;
/** 120 reads a minute of one batch, of 300 that a service allows where nothing else was set. */
const LOOK_AGAIN_MS = 500;
const FIRST_LOOK_MS = 50;
/** What is left of a load that nobody ended goes by itself. */
const EXPIRATION_H = 1;
const WAIT_D_MAX = 1;

export const BENCH: Command = {
  name: 'bench',
  words: [],
  summary: 'Put a known load on a running service, and say how it bore it.',
  about: `Creates ${number(TASKS)} tasks in batches of ${BATCH_TASKS} unless told otherwise, waits until they have ended, and reports tasks a second, how long the creates took, how long the batches took and what failed. Everything goes through the public API, with its limits: where the service asks for patience (429) it gets it, and the report says how often. Tasks call what \`--target\` names, or, with \`--listen\`, a receiver of the command's own that answers 200 at once; the service must reach it, and be allowed to (\`SLUICE_ALLOW_PRIVATE_TARGETS\`, \`SLUICE_EGRESS_ALLOW_CIDRS\`). The batches have the label \`sluice-bench\`; completed ones are deleted in the end, and what has not ended when the command is interrupted, or its time is up, is cancelled. Times of batches are the service's own, from \`created_at\` to the last change.`,
  options: {
    target: { type: 'string', value: 'URL', meaning: 'What the tasks call, by POST. With `--listen`: how the service reaches it.' },
    listen: { type: 'string', value: 'HOST:PORT', meaning: 'Receive the calls here; port 0 takes a free one.' },
    tasks: { type: 'string', value: 'N', meaning: `Tasks altogether, at most ${number(TASKS_MAX)}; ${number(TASKS)} where not given.` },
    'batch-tasks': {
      type: 'string',
      value: 'N',
      meaning: `Tasks of a batch, at most ${number(BATCH_TASKS_MAX)}; ${BATCH_TASKS} where not given.`,
    },
    'payload-bytes': { type: 'string', value: 'N', meaning: `Of JSON in each task; ${PAYLOAD_BYTES} where not given.` },
    rate: { type: 'string', value: 'N', meaning: 'Tasks created a second; as many as the service takes where not given.' },
    wait: { type: 'string', value: '5m', meaning: 'How long the whole may take; 5m where not given.' },
    keep: { type: 'boolean', meaning: 'Do not delete the batches that have completed.' },
  },
  needs: 'server',
  run: bench,
};

interface Load {
  target: string;
  tasks: number;
  batch_tasks: number;
  payload_bytes: number;
  rate: number | null;
  label: string;
}

/** Requests as they went, over all retries. */
interface Meter {
  create_ms: number[];
  limited: number;
}

async function bench(given: Given): Promise<ExitCode> {
  const wait_ms = durationMs('wait', given.text('wait') ?? '5m', WAIT_D_MAX);
  const load = loadOf(given);
  const meter: Meter = { create_ms: [], limited: 0 };
  const client = clientOf(given, { retries_max: RETRIES_MAX, fetch: metered(meter) });
  const receiver = given.text('listen') === null ? null : await BenchReceiver.listen(given.must('listen'), load.tasks);
  load.target = given.text('target') ?? receiver?.url ?? '';
  const stopped = new AbortController();
  const onSignal = (): void => stopped.abort('interrupted');
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal);
  const timer = setTimeout(() => stopped.abort('late'), wait_ms);
  const line = new ProgressLine(!given.json);
  const sent: Sent[] = [];
  try {
    const from_ms = performance.now();
    await create(client, load, sent, stopped.signal, line);
    const created_ms = performance.now() - from_ms;
    await follow(client, sent, stopped.signal, line);
    line.clear();
    if (stopped.signal.reason === 'interrupted')
      throw new Failure('Interrupted; what had not ended was cancelled.', { exit: EXIT.interrupted, code: 'interrupted' });
    if (stopped.signal.aborted) await cancelAll(client, load.label);
    const report = reportOf({ ...load, sent, created_ms, ...meter, received: receiver?.counts() ?? null });
    if (!given.flag('keep')) await remove(client, sent);
    show(given.json, report, () => reportText(report));
    return verdict(report);
  } catch (error) {
    line.clear();
    // A create that is refused leaves those that were not: nobody would wait for them. Where the service is gone they expire.
    if (sent.length > 0 || stopped.signal.aborted) await cancelAll(client, load.label).catch(() => {});
    throw error;
  } finally {
    clearTimeout(timer);
    process.removeListener('SIGINT', onSignal).removeListener('SIGTERM', onSignal);
    await receiver?.close();
  }
}

function verdict({ tasks, completed, received }: BenchReport): ExitCode {
  return completed === tasks && (received === null || received.tasks === tasks) ? EXIT.done : EXIT.bad_end;
}

function loadOf(given: Given): Load {
  const target = given.text('target');
  if (target === null && given.text('listen') === null)
    throw new UsageError('What shall the tasks call? Give --target URL, or --listen HOST:PORT for a receiver of this command.');
  if (target !== null && !(/^https?:\/\//.test(target) && URL.canParse(target)))
    throw new UsageError('--target must begin with http:// or https://.');
  const whole = { min: 1, whole: true };
  const load = {
    target: target ?? '',
    tasks: given.number('tasks', { ...whole, max: TASKS_MAX }) ?? TASKS,
    batch_tasks: given.number('batch-tasks', { ...whole, max: BATCH_TASKS_MAX }) ?? BATCH_TASKS,
    payload_bytes: given.number('payload-bytes', { min: 2, max: PAYLOAD_BYTES_MAX, whole: true }) ?? PAYLOAD_BYTES,
    rate: given.number('rate', { min: 0.1, max: 1_000_000 }),
    label: randomBytes(4).toString('hex'),
  };
  if (load.batch_tasks * load.payload_bytes > BODY_BYTES_MAX)
    throw new UsageError(`--batch-tasks × --payload-bytes must be at most ${number(BODY_BYTES_MAX)}.`);
  return load;
}

/** The global fetch, that notes how long creates took which were taken, and how often the service asked for patience. */
function metered(meter: Meter): typeof fetch {
  return async (input, init) => {
    const began_ms = performance.now();
    const response = await fetch(input, init);
    if (response.status === 429) meter.limited += 1;
    else if (response.status === 201) meter.create_ms.push(performance.now() - began_ms);
    return response;
  };
}

/** Creates all batches, at the rate that was asked for, and no more than a few at a time. */
async function create(client: Client, load: Load, sent: Sent[], signal: AbortSignal, line: ProgressLine): Promise<void> {
  const { tasks, batch_tasks, rate, label, payload_bytes } = load;
  const target = { url: load.target, method: 'POST' as const };
  const from_ms = performance.now();
  let next = 0;
  let failed = false;
  const worker = async (): Promise<void> => {
    while (next < tasks && !signal.aborted && !failed) {
      const first = next;
      const count = Math.min(batch_tasks, tasks - first);
      next += count;
      if (rate !== null) await pause(from_ms + (first * 1_000) / rate - performance.now(), signal);
      if (signal.aborted) return;
      const list = Array.from({ length: count }, (_, i) => ({ target, payload: payload(first + i, payload_bytes) }));
      const body = { tasks: list, options: { expiration: EXPIRATION_H }, description: 'sluice bench', labels: { 'sluice-bench': label } };
      try {
        const batch = await client.createBatch(body, { signal });
        sent.push({ id: batch.id, tasks: count, created_ms: Date.parse(batch.created_at), end: null });
      } catch (error) {
        if (signal.aborted) return;
        failed = true;
        throw error;
      }
      line.draw(sent.length / Math.ceil(tasks / batch_tasks), () => `${number(sent.length)} batches created`);
    }
  };
  // All of them, so that nothing is created behind the back of who cancels what was.
  const ended = await Promise.allSettled(Array.from({ length: CREATES_IN_FLIGHT }, worker));
  for (const one of ended) if (one.status === 'rejected') throw one.reason;
}

/** Text of so many bytes of JSON, different for each number where there is room for it. */
function payload(index: number, bytes: number): string {
  return `${index} `.slice(0, bytes - 2).padEnd(bytes - 2, 'x');
}

/** Looks at one batch after the other until each has ended. */
async function follow(client: Client, sent: readonly Sent[], signal: AbortSignal, line: ProgressLine): Promise<void> {
  for (const [at, one] of sent.entries()) {
    for (let wait_ms = FIRST_LOOK_MS; !signal.aborted; wait_ms = Math.min(LOOK_AGAIN_MS, wait_ms * 2)) {
      const batch = await client.getBatch(one.id, {}, { signal }).catch((error: unknown) => {
        if (signal.aborted) return null;
        throw error;
      });
      if (batch === null) return;
      if (hasEnded(batch)) {
        one.end = { ended_ms: Date.parse(batch.updated_at), stats: batch.stats };
        break;
      }
      await pause(wait_ms, signal);
    }
    line.draw((at + 1) / sent.length, () => `${number(at + 1)} of ${number(sent.length)} batches have ended`);
  }
}

function hasEnded({ status, stats }: Batch): boolean {
  return status !== 'pending' && status !== 'processing' && stats.pending === 0;
}

/** By their label: of a create that was given up nobody knows whether it happened. */
async function cancelAll(client: Client, label: string): Promise<void> {
  const ids: string[] = [];
  for await (const { id, status } of client.allBatches({ 'label.sluice-bench': label }))
    if (status === 'pending' || status === 'processing') ids.push(id);
  for (const id of ids) await quietly(() => client.cancelBatch(id));
}

/** What failed stays, to be looked at. */
async function remove(client: Client, sent: readonly Sent[]): Promise<void> {
  for (const { id, tasks, end } of sent) if (end?.stats.completed === tasks) await quietly(() => client.deleteBatch(id));
}

/** Says what the service refuses and goes on: it ended meanwhile, or the token may not. */
async function quietly(call: () => Promise<unknown>): Promise<void> {
  try {
    await call();
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    if (error.code !== 'batch_state_invalid') warn(error.message);
  }
}

/** Ends early where `signal` says so. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (ms <= 0 || signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener('abort', end, { once: true });
  });
}
