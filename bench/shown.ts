// The second table of README.md: what the rows of bench/main.ts say, each of the last recorded run that has it, with its day and machine.
import { type Run, recordedRuns } from './lib/recorded.ts';
import { rounded } from './lib/stats.ts';

const BEGIN = '<!-- The rows of bench/main.ts, by make gen -->';
const END = '<!-- end of the rows -->';

/** Gives a figure of the row as text. */
type Of = (figure: string) => string;

interface Shown {
  /** Of bench/main.ts. */
  row: string;
  what: string;
  /** Throws where the run has no such figure: then an earlier one is looked at. */
  sluice: (of: Of) => string;
  beside?: (of: Of) => string;
}

const KINDS = ['concurrent', 'bucket', 'window', 'leaky', 'points'];

const SHOWN: readonly Shown[] = [
  {
    row: 'end_to_end',
    what: 'end to end: 100,000 tasks of 256 bytes in batches of 1,000, created, called, counted',
    sluice: (of) => `${of('tasks_per_s')}/s; a task ${of('engine_cpu_us')} µs Node + ${of('redis_cpu_us')} µs Redis`,
    beside: (of) =>
      `bare undici loop, sending only: ${of('bare_requests_per_s')}/s, ${of('bare_cpu_us')} µs (ratio ${of('ratio_to_bare')})`,
  },
  {
    row: 'create',
    what: 'create only, batches of 1,000',
    sluice: (of) => `${of('tasks_per_s')} tasks/s; ${of('engine_cpu_us')} µs Node + ${of('redis_cpu_us')} µs Redis`,
  },
  {
    row: 'create',
    what: 'Redis memory of a waiting task; beyond its own JSON; the same where each has a URL of its own',
    sluice: (of) => `${of('redis_bytes')} bytes; ${of('redis_bytes_beyond_json')}; ${of('redis_bytes_beyond_json_own_urls')}`,
  },
  {
    row: 'single',
    what: 'single tasks, `POST /v1/tasks`, 64 connections',
    sluice: (of) =>
      `${of('tasks_per_s')}/s; ${of('engine_cpu_us')} µs Node + ${of('redis_cpu_us')} µs Redis; ${of('redis_bytes_beyond_json')} bytes beyond its JSON`,
  },
  {
    row: 'mixed',
    what: '70 % reads, 20 % creates of 5 tasks, 10 % adds, while the tasks run; p50 / p99 of each',
    sluice: (of) => {
      const took = (kind: string): string => `${of(`${kind}_p50_ms`)} / ${of(`${kind}_p99_ms`)}`;
      return `${of('requests_per_s')} requests/s; reads ${took('read')}, creates ${took('create')}, adds ${took('add')} ms`;
    },
  },
  {
    row: 'intake',
    what: 'reads of a batch while one client creates batches of 15 MiB in a loop, p99',
    sluice: (of) => `${of('busy_p99_ms')} ms (quiet ${of('quiet_p99_ms')})`,
  },
  {
    row: 'read',
    what: '`GET /v1/batches/{id}`, 64 connections; reads that come together share a call to Redis',
    sluice: (of) => `${of('requests_per_s')}/s`,
    beside: (of) => `bare uWebSockets.js and one HGETALL each: ${of('bare_requests_per_s')}/s (ratio ${of('ratio_to_bare')})`,
  },
  {
    row: 'list',
    what: '`GET /v1/batches`, a page of 20 gathered from 16, 256 and 1,024 partitions: time; CPU of Node and of Redis',
    sluice: (of) =>
      ['16', '256', '1024'].map((n) => `${of(`page_ms_${n}`)} ms (${of(`engine_us_${n}`)} + ${of(`redis_us_${n}`)} µs)`).join('; '),
  },
  {
    row: 'latency',
    what: 'one task, its POST → its callback, p50 / p99: ten a second',
    sluice: (of) => `${of('p50_ms')} / ${of('p99_ms')} ms`,
  },
  {
    row: 'latency',
    what: 'the same at 500 and at 2,000 a second, p50 / p99 / p99.9 of all rounds together',
    sluice: (of) => {
      const at = (load: string): string => `${of(`${load}_p50_ms`)} / ${of(`${load}_p99_ms`)} / ${of(`${load}_p99_9_ms`)}`;
      return `${at('at_500')} and ${at('at_2000')} ms`;
    },
  },
  {
    row: 'flood',
    what: 'the same beside 100,000 waiting tasks of another account for the same host, p50 / p99',
    sluice: (of) => `${of('waiting_p50_ms')} / ${of('waiting_p99_ms')} ms (alone ${of('alone_p50_ms')} / ${of('alone_p99_ms')})`,
  },
  {
    row: 'lateness',
    what: '1,000 tasks due at one moment; over five seconds: lateness p50 / p99',
    sluice: (of) => `${of('at_once_p50_ms')} / ${of('at_once_p99_ms')} ms; ${of('spread_p50_ms')} / ${of('spread_p99_ms')} ms`,
  },
  {
    row: 'schedule_lateness',
    what: '1,000 schedules due at one second, lateness p50 / p99',
    sluice: (of) => `${of('sluice_p50_ms')} / ${of('sluice_p99_ms')} ms`,
    beside: (of) => `BullMQ’s job schedulers: ${of('bullmq_p50_ms')} / ${of('bullmq_p99_ms')} ms`,
  },
  {
    row: 'notifications',
    what: 'notifications, one for each task and the end; last answer → `on_finish` at 1,000 callbacks/s, p50 / p99',
    sluice: (of) => `${of('notifications_per_s')}/s; ${of('finish_p50_ms')} / ${of('finish_p99_ms')} ms`,
  },
  {
    row: 'streams',
    what: 'streams at 1,000 callbacks/s, answer → frame, p50 / p99: 1,000 and 10,000 WebSockets',
    sluice: (of) => `${of('p50_ms_1k')} / ${of('p99_ms_1k')} ms; ${of('p50_ms_10k')} / ${of('p99_ms_10k')} ms`,
  },
  {
    row: 'streams',
    what: 'frames of single tasks to 1,000 WebSockets at full load',
    sluice: (of) => `${of('frames_per_s')}/s`,
    beside: (of) => `bare uWebSockets.js publish loop: ratio ${of('ratio_to_bare')}`,
  },
  {
    row: 'limiter_grants',
    what: 'limiters: starts granted in one Redis, 200 a call, by kind',
    sluice: (of) =>
      KINDS.map((kind) => `${kind} ${of(`${kind}_per_s`)}`)
        .join(', ')
        .concat(' a second'),
    beside: (of) => `rate-limiter-flexible, one decision a call: ${of('rate_limiter_flexible_per_s')}/s`,
  },
  {
    row: 'limiter_share',
    what: 'share used of a window of a second at 100, 1,000, 10,000 starts a second; never more than all',
    sluice: (of) => ['100', '1000', '10000'].map((rate) => of(`window_${rate}_share`)).join(', '),
  },
  {
    row: 'limiter_waiting',
    what: 'Redis commands sent while 50,000 tasks wait at 10 a second',
    sluice: (of) => `${of('sent_per_s')}/s`,
    beside: (of) => `BullMQ: ${of('bullmq_sent_per_s')}/s`,
  },
  { row: 'limiter_million', what: 'the same while 1,000,000 wait', sluice: (of) => `${of('sent_per_s')}/s` },
  {
    row: 'takeover',
    what: 'a process dies (kill -9) at 2,000 tasks/s: what was not in flight is late by, p50; what was, at most',
    sluice: (of) => `${of('p50_s')} s; ${of('worst_s')} s`,
  },
  {
    row: 'client_size',
    what: 'the client in a browser bundle, all of it; with gzip',
    sluice: (of) => `${of('minified_bytes')} bytes; ${of('gzip_bytes')}`,
  },
  {
    row: 'first_callback',
    what: 'from a clone, with an empty HOME, to the first callback, by the first commands above; packages from a near registry',
    sluice: (of) =>
      `${of('commands')} commands, ${of('seconds')} s: ${of('install_s')} to install, ${of('build_s')} to build, ${of('start_s')} to start`,
  },
  {
    row: 'idle',
    what: 'idle, CPU of one core in the seconds 3 to 28 after some work; of a server that had none, in the table above',
    sluice: (of) => `${of('engine_cpu_percent')} %`,
  },
];

/** README.md with the rows as the runs have them; a line that no run has is left out. */
export function withRows(readme: string, results: string): string {
  const runs = recordedRuns(results);
  const [from, to] = [readme.indexOf(BEGIN), readme.indexOf(END)];
  if (from < 0 || to < from) throw new Error('README.md has lost the markers of the rows.');
  const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  const head = ['what', 'Sluice', 'beside it', 'run of'];
  const lines = [head, head.map(() => '---'), ...SHOWN.flatMap((shown) => cellsOf(shown, runs))].map(row);
  return `${readme.slice(0, from + BEGIN.length)}\n\n${lines.join('\n')}\n\n${readme.slice(to)}`;
}

function cellsOf({ row, what, sluice, beside }: Shown, runs: readonly Run[]): string[][] {
  for (const { results, date, cpu } of runs.toReversed()) {
    const figures = results?.[row];
    if (figures === undefined) continue;
    const of: Of = (name) => {
      const value = figures[name];
      if (typeof value !== 'number') throw new Missing(name);
      return rounded(value, Math.abs(value) >= 1_000 ? 4 : 3).toLocaleString('en-US', { maximumFractionDigits: 4 });
    };
    try {
      return [[what, sluice(of), beside?.(of) ?? '', `${date.slice(0, 10)}, ${cpu.replaceAll(/\(R\)| Processor/g, '')}`]];
    } catch (error) {
      if (!(error instanceof Missing)) throw error;
    }
  }
  return [];
}

class Missing extends Error {}
