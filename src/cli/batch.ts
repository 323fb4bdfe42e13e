// `sluice batch …`: what can be asked of a batch that exists.
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Batch, BatchChange, BatchStats, Client, TaskListItem } from '../client/index.ts';
import { type Command, EXIT, type ExitCode, type Given, type Option } from './command.ts';
import { facts, number, print, show, table, warn } from './output.ts';
import { ProgressLine } from './progress.ts';
import { clientOf } from './server.ts';

const BATCH_STATUSES = ['pending', 'processing', 'completed', 'failed', 'expired'] as const;
const TASK_STATUSES = ['queued', 'processing', 'completed', 'failed'] as const;
const ID = ['BATCH_ID'];

/** What lists take. */
export const PAGE: Readonly<Record<string, Option>> = {
  limit: { type: 'string', value: 'N', meaning: 'How many to show, at most 1,000; 100 where not given.' },
  cursor: { type: 'string', value: 'CURSOR', meaning: 'Where to go on: as the page before said.' },
  offset: { type: 'string', value: 'N', meaning: 'How many to leave out first.' },
};

export const BATCH_COMMANDS: readonly Command[] = [
  {
    name: 'batch list',
    words: [],
    summary: 'List batches, newest first.',
    options: {
      status: { type: 'string', choices: BATCH_STATUSES, meaning: 'Only batches of this status.' },
      label: { type: 'string', value: 'KEY=VALUE', multiple: true, meaning: 'Only batches with this label.' },
      ...PAGE,
    },
    needs: 'server',
    run: batchList,
  },
  {
    name: 'batch get',
    words: ID,
    summary: 'Show a batch.',
    options: {},
    needs: 'server',
    run: async (given) => shown(given, await clientOf(given).getBatch(given.word(0))),
  },
  {
    name: 'batch tasks',
    words: ID,
    summary: 'List the tasks of a batch: which failed, and why.',
    options: { status: { type: 'string', choices: TASK_STATUSES, meaning: 'Only tasks of this status.' }, ...PAGE },
    needs: 'server',
    run: batchTasks,
  },
  {
    name: 'batch results',
    words: ID,
    summary: 'Print how the tasks of a batch ended, as JSON, one a line.',
    options: { start: { type: 'string', value: 'INDEX', meaning: 'The task to begin with; 0 where not given.' } },
    needs: 'server',
    run: batchResults,
  },
  {
    name: 'batch watch',
    words: ID,
    summary: 'Follow a batch until it ends; the exit code says how (4: not `completed`).',
    options: { tasks: { type: 'boolean', meaning: 'Also say which tasks end.' } },
    needs: 'server',
    run: (given) => follow(given, clientOf(given), given.word(0), given.flag('tasks')),
  },
  {
    name: 'batch cancel',
    words: ID,
    summary: 'Cancel what has not started.',
    options: {},
    needs: 'server',
    run: async (given) => changed(given, await clientOf(given).cancelBatch(given.word(0))),
  },
  {
    name: 'batch retry',
    words: ID,
    summary: 'Run the failed tasks of a batch again.',
    options: {},
    needs: 'server',
    run: async (given) => changed(given, await clientOf(given).retryBatch(given.word(0))),
  },
  {
    name: 'batch release',
    words: ID,
    summary: 'Let a held batch end.',
    options: {},
    needs: 'server',
    run: async (given) => shown(given, await clientOf(given).releaseBatch(given.word(0))),
  },
  {
    name: 'batch delete',
    words: ID,
    summary: 'Delete a finished batch.',
    options: {},
    needs: 'server',
    run: async (given) => {
      const deleted = await clientOf(given).deleteBatch(given.word(0));
      show(given.json, deleted, () => `${given.word(0)} is gone.`);
      return EXIT.done;
    },
  },
];

/** The page that was asked for: by cursor, so that lists go on however long they are, unless an offset was given. */
export function pageOf(given: Given): { limit?: number; offset?: number; cursor?: string } {
  const limit = given.number('limit', { min: 1, max: 1_000, whole: true });
  const offset = given.number('offset', { min: 0, max: 100_000, whole: true });
  const cursor = given.text('cursor');
  // Both together are the server's to refuse.
  const by_cursor = offset === null || cursor !== null ? { cursor: cursor ?? '' } : {};
  return { ...(limit === null ? {} : { limit }), ...(offset === null ? {} : { offset }), ...by_cursor };
}

/** Shows a page of a list, and to people how to go on. */
export function showPage(given: Given, page: { next_cursor?: string | null }, rows: () => readonly (readonly string[])[]): void {
  show(given.json, page, () => table(rows()));
  if (!given.json && typeof page.next_cursor === 'string') warn(`There are more: --cursor ${page.next_cursor}`);
}

async function batchList(given: Given): Promise<ExitCode> {
  const status = BATCH_STATUSES.find((one) => one === given.text('status'));
  const labels = given.texts('label').map((text) => [`label.${text.split('=', 1)[0]}`, text.slice(text.indexOf('=') + 1)]);
  const query = { ...pageOf(given), ...(status === undefined ? {} : { status }), ...Object.fromEntries(labels) };
  const list = await clientOf(given).listBatches(query);
  const rows = list.batches.map((batch) => [batch.id, batch.status, ...counts(batch.stats), batch.created_at, batch.description ?? '']);
  const head = ['ID', 'STATUS', 'TASKS', 'PENDING', 'COMPLETED', 'FAILED', 'CANCELLED', 'CREATED', 'DESCRIPTION'];
  showPage(given, list, () => [head, ...rows]);
  return EXIT.done;
}

async function batchTasks(given: Given): Promise<ExitCode> {
  const status = TASK_STATUSES.find((one) => one === given.text('status'));
  const query = { ...pageOf(given), ...(status === undefined ? {} : { status }) };
  const list = await clientOf(given).listBatchTasks(given.word(0), query);
  showPage(given, list, () => [['ID', 'STATUS', 'ATTEMPTS', 'ANSWER', 'TARGET'], ...list.tasks.map(taskRow)]);
  return EXIT.done;
}

async function batchResults(given: Given): Promise<ExitCode> {
  const start_index = given.number('start', { min: 0, max: Number.MAX_SAFE_INTEGER, whole: true }) ?? 0;
  const outcomes = clientOf(given).results(given.word(0), { start_index });
  const lines = Readable.from(outcomes).map((outcome) => `${JSON.stringify(outcome)}\n`);
  try {
    await pipeline(lines, process.stdout, { end: false });
  } catch (error) {
    // Whoever reads has seen enough, as `head` does.
    if ((error as NodeJS.ErrnoException).code !== 'EPIPE') throw error;
  }
  return EXIT.done;
}

function taskRow(task: TaskListItem): string[] {
  const { status_code = null, error = null } = task.result ?? {};
  const answer = [status_code, error?.code].filter((part) => part !== null && part !== undefined).join(' ');
  const url = typeof task.target === 'string' ? task.target : task.target.url;
  return [task.id, task.status, String(task.attempts), answer, url];
}

function counts({ total, pending, completed, failed, cancelled }: BatchStats): string[] {
  return [total, pending, completed, failed, cancelled].map(number);
}

function shown(given: Given, batch: Batch): ExitCode {
  show(given.json, batch, () =>
    facts([
      ['id', batch.id],
      ['status', batch.status],
      ['description', batch.description],
      [
        'labels',
        Object.entries(batch.labels ?? {})
          .map(([key, value]) => `${key}=${value}`)
          .join(' '),
      ],
      ['tasks', statsText(batch.stats)],
      ['completed', `${batch.completion_rate} %`],
      ['created', batch.created_at],
      ['updated', batch.updated_at],
    ]),
  );
  return EXIT.done;
}

function changed(given: Given, change: BatchChange): ExitCode {
  show(given.json, change, () => `${change.id} is ${change.status}.`);
  return EXIT.done;
}

function statsText({ total, pending, completed, failed, cancelled }: BatchStats): string {
  const parts = [`${number(total)}: ${number(pending)} pending`, `${number(completed)} completed`, `${number(failed)} failed`];
  return [...parts, ...(cancelled > 0 ? [`${number(cancelled)} cancelled`] : [])].join(', ');
}

/** Follows a batch until it ends. A line on the terminal, or one JSON document a frame. */
export async function follow(given: Given, client: Client, batch_id: string, tasks: boolean): Promise<ExitCode> {
  const line = new ProgressLine(!given.json);
  let status = '';
  for await (const frame of client.watch(batch_id, { tasks })) {
    if (given.json) print(JSON.stringify(frame));
    if (frame.type === 'task') {
      line.clear();
      if (!given.json) print(`${frame.task.id} ${frame.task.status}`);
      continue;
    }
    const { stats, ...now } = frame.type === 'snapshot' ? frame.batch : frame;
    const ended = stats.total - stats.pending;
    if (frame.type !== 'finished') line.draw(ended / Math.max(1, stats.total), () => statsText(stats));
    else {
      line.clear();
      if (!given.json) print(`${batch_id} ${now.status}: ${statsText(stats)}`);
    }
    status = now.status;
  }
  return status === 'completed' ? EXIT.done : EXIT.bad_end;
}
