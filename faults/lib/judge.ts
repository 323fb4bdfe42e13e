// After a fault, when all is quiet: accepted ids, the receivers' own log, task states and counters are held against one another.
import { setTimeout as sleep } from 'node:timers/promises';
import { ID_PREFIX, taskId } from '../../src/base/id.ts';
import { TOKENS } from '../../test/helpers/engine.ts';
import type { ReceivedCall } from '../../test/helpers/receiver.ts';
import type { Accepted } from './driver.ts';
import type { Books } from './fault.ts';

export interface Evidence {
  /** Any engine that lives. */
  url: string;
  accepted: Iterable<Accepted>;
  calls: readonly ReceivedCall[];
  /** The same by task, in their place: where the log goes on while it is read. */
  log?: ReadonlyMap<string, readonly ReceivedCall[]>;
  /** A task that has not ended by then is lost. */
  quiet_ms_max: number;
  /** Redis may have forgotten what it did: a create that was called, and then made again. */
  forgets?: boolean;
  /** Finished batches may be deleted early: of one that is gone the receivers' log says whether it was done. */
  early?: boolean;
  /** Whether a task that was accepted nowhere should have been; runs of schedules are not. */
  ours?: (id: string) => boolean;
  /** Calls that a task's answers ask for; one unless said otherwise. */
  expected?: (calls: readonly ReceivedCall[]) => number;
}

type State = 'completed' | 'failed' | 'cancelled';
type Stats = Record<State | 'total' | 'pending', number>;
type Row = { id: string; status: string };

const LOOK_AGAIN_MS = 50;
const READ_MS_MAX = 10_000;
const PAGE_MAX = 1_000;
const READS_AT_ONCE = 8;
const STATES: readonly State[] = ['completed', 'failed', 'cancelled'];

export interface Verdict extends Omit<Books, 'recovery_s'> {
  /** One that was lost, for the curious. */
  example: string | null;
  states: Record<State, number>;
}

export async function judge({
  url,
  accepted,
  calls,
  log,
  quiet_ms_max,
  forgets = false,
  early = false,
  ours = () => true,
  expected = () => 1,
}: Evidence): Promise<Verdict> {
  const end_ms = Date.now() + quiet_ms_max;
  const heard = log ?? byTask(calls);
  const verdict: Verdict = {
    accepted: 0,
    lost: 0,
    uncalled: 0,
    duplicates: 0,
    double_counted: 0,
    drift: 0,
    example: null,
    states: { completed: 0, failed: 0, cancelled: 0 },
  };
  const known = new Set<string>();
  const left = [...accepted];
  const reader = async (): Promise<void> => {
    for (let one = left.pop(); one !== undefined; one = left.pop()) {
      verdict.accepted += one.tasks;
      const { rows, stats } = one.id.startsWith('task_') ? await single(url, one.id, end_ms) : await whole(url, one.id, end_ms);
      if (early && stats === null && rows.length === 0) {
        const ids = one.id.startsWith('task_')
          ? [one.id]
          : Array.from({ length: one.tasks }, (_, i) => taskId(one.id.slice(ID_PREFIX.batch.length), i));
        const never = ids.filter((id) => !heard.has(id));
        verdict.lost += never.length;
        if (never.length > 0) verdict.example ??= `${never[0]}: gone, and never called`;
        for (const id of ids) known.add(id);
        for (const id of ids) verdict.duplicates += Math.max(0, (heard.get(id)?.length ?? 1) - 1);
        continue;
      }
      const ended = rows.filter(({ status }) => STATES.includes(status as State));
      const missing = Math.max(0, one.tasks - ended.length);
      if (missing > 0) verdict.example ??= `${one.id}: ${stats === null ? 'gone' : JSON.stringify(stats)}`;
      verdict.lost += missing;
      for (const { id, status } of rows) {
        known.add(id);
        const mine = heard.get(id) ?? [];
        if (status === 'completed' && mine.length === 0) {
          verdict.uncalled += 1;
          verdict.example ??= `${id}: completed, and never called`;
        }
        if (mine.length > 0) verdict.duplicates += Math.max(0, mine.length - expected(mine));
      }
      for (const state of STATES) verdict.states[state] += rows.filter(({ status }) => status === state).length;
      // Of what Redis may forget, tasks that were added late are lost, and not miscounted.
      if (stats !== null) weigh(verdict, forgets ? Math.min(one.tasks, stats.total) : one.tasks, stats, rows);
    }
  };
  await Promise.all(Array.from({ length: READS_AT_ONCE }, reader));
  // A create that was repeated must not have made its work twice.
  if (!forgets) verdict.drift += [...heard.keys()].filter((id) => id.startsWith('task_') && !known.has(id) && ours(id)).length;
  return verdict;
}

function byTask(calls: readonly ReceivedCall[]): ReadonlyMap<string, readonly ReceivedCall[]> {
  const heard = new Map<string, ReceivedCall[]>();
  for (const call of calls) {
    const list = heard.get(call.id);
    if (list === undefined) heard.set(call.id, [call]);
    else list.push(call);
  }
  return heard;
}

/** Counters against states, against their own total, and against what was promised. */
function weigh(verdict: Verdict, promised: number, stats: Stats, rows: readonly Row[]): void {
  for (const state of STATES) {
    const counted = stats[state] - rows.filter(({ status }) => status === state).length;
    if (counted > 0) verdict.double_counted += counted;
    else verdict.drift -= counted;
  }
  verdict.drift += Math.abs(stats.total - promised);
  verdict.drift += Math.abs(stats.total - stats.pending - stats.completed - stats.failed - stats.cancelled);
}

interface Read {
  rows: Row[];
  /** Null where it is gone, and for a single task, which has none. */
  stats: Stats | null;
}

async function single(url: string, id: string, end_ms: number): Promise<Read> {
  for (;;) {
    const task = await read<Row>(url, `/v1/tasks/${id}`, end_ms);
    if (task === null) return { rows: [], stats: null };
    if (STATES.includes(task.status as State) || Date.now() > end_ms) return { rows: [task], stats: null };
    await sleep(LOOK_AGAIN_MS);
  }
}

async function whole(url: string, id: string, end_ms: number): Promise<Read> {
  for (;;) {
    const batch = await read<{ stats: Stats }>(url, `/v1/batches/${id}`, end_ms);
    if (batch === null) return { rows: [], stats: null };
    if (batch.stats.pending === 0 || Date.now() > end_ms) return { rows: await tasks(url, id, end_ms), stats: batch.stats };
    await sleep(LOOK_AGAIN_MS);
  }
}

async function tasks(url: string, id: string, end_ms: number): Promise<Row[]> {
  const rows: Row[] = [];
  for (;;) {
    const page = await read<{ total: number; tasks: Row[] }>(
      url,
      `/v1/batches/${id}/tasks?limit=${PAGE_MAX}&offset=${rows.length}`,
      end_ms,
    );
    if (page === null) return rows;
    rows.push(...page.tasks);
    if (rows.length >= page.total || page.tasks.length === 0) return rows;
  }
}

/** Null for 404; until it is answered otherwise, where the engine is busy coming back. */
async function read<T>(url: string, path: string, end_ms: number): Promise<T | null> {
  const headers = { authorization: `Bearer ${TOKENS.acme}` };
  for (;;) {
    const response = await fetch(url + path, { headers, signal: AbortSignal.timeout(READ_MS_MAX) }).catch(() => null);
    const text = (await response?.text().catch(() => null)) ?? '';
    if (response?.status === 404) return null;
    if (response?.status === 200 && text !== '') return JSON.parse(text) as T;
    if (Date.now() > end_ms + READ_MS_MAX)
      throw new Error(`${path} cannot be read: ${response?.status ?? 'no answer'} ${text.slice(0, 200)}`);
    await sleep(LOOK_AGAIN_MS);
  }
}
