// `sluice plan`: how many partitions, threads and processes a load needs, and how much Redis, reckoned from what a task
// costs where it was measured (costs.gen.ts). Other machines are faster or slower: the order of things is right, and
// half of each core is left free.
import { PARTITIONS_MAX } from '../store/tags.ts';
import { type Command, durationMs, EXIT, type ExitCode, type Given } from './command.ts';
import { COSTS } from './costs.gen.ts';
import { bytes, facts, number, show } from './output.ts';

export interface Load {
  tasks_per_s: number;
  payload_bytes: number;
  /** Of an answer, what is kept: 1,024 at most. */
  answer_bytes: number;
  retention_s: number;
  /** How long a target takes to answer. */
  call_ms: number;
  /** Calls of a task, on average. */
  attempts: number;
  /** Tasks that wait for their time, at most. */
  waiting: number;
  /** Created one by one, by POST /v1/tasks. */
  single: boolean;
}

export interface Plan {
  partitions: number;
  redis: { masters: number; data_bytes: number; maxmemory_bytes: number; machine_bytes: number; cpu_cores: number };
  sluice: { processes: number; threads_per_process: number; threads: number; cpu_cores: number; calls_in_flight: number };
  tasks_kept: number;
  bytes_per_task: number;
}

/** Of each core; the rest is for peaks, for catching up, and for a process less. */
const BUSY_SHARE = 0.5;
/** Of maxmemory that data may take: at 0.8 the doctor warns, above it new work is refused. */
const MEMORY_SHARE = 0.7;
/** Rewriting the append-only file forks: at worst every page is copied. */
const MACHINE_TO_MAXMEMORY = 2;
const MASTER_BYTES_MAX = 32 * 1_024 ** 3;
const THREADS_MAX = 8;
/** SLUICE_CALLBACKS_PER_THREAD, less what should be free. */
const IN_FLIGHT_PER_THREAD = 3_000;
/** So that they divide evenly, whoever dies. */
const PARTITIONS_PER_THREAD = 4;
const PARTITIONS_PER_MASTER = 16;
const PARTITIONS_MIN = 16;
/** One may die, or be replaced. */
const PROCESSES_MIN = 2;
/** How it went, beside the answer: measured with `batch create` of 100,000 tasks and an empty answer. */
const RESULT_BYTES = 60;
const ANSWER_BYTES_MAX = 1_024;
/** Single tasks are kept a day, whatever the retention. */
const SINGLE_KEPT_S = 86_400;

export const PLAN: Command = {
  name: 'plan',
  words: [],
  summary: 'Reckon what a load needs: partitions, memory of Redis, threads, processes.',
  about: `From costs measured with ${COSTS.payload_bytes} bytes of payload (${COSTS.measured}); half of each core stays free. Measure on your own machines before you rely on it: \`make bench\`.`,
  options: {
    'tasks-per-s': { type: 'string', value: 'N', required: true, meaning: 'Tasks a second, at the busiest time.' },
    'payload-bytes': { type: 'string', value: 'N', meaning: `Of a task; ${COSTS.payload_bytes} where not given.` },
    'answer-bytes': { type: 'string', value: 'N', meaning: 'Of an answer, of which 1,024 are kept; 0 where not given.' },
    retention: { type: 'string', value: '7d', meaning: 'How long finished batches are kept (SLUICE_RETENTION); 7d where not given.' },
    'call-ms': { type: 'string', value: 'N', meaning: 'How long a target takes to answer; 100 where not given.' },
    attempts: { type: 'string', value: 'N', meaning: 'Calls of a task on average; 1.05 where not given.' },
    waiting: { type: 'string', value: 'N', meaning: 'Tasks that wait for their time, at most; 0 where not given.' },
    single: { type: 'boolean', meaning: 'Tasks are created one by one, not in batches.' },
  },
  needs: 'nothing',
  run: plan,
};

async function plan(given: Given): Promise<ExitCode> {
  const load: Load = {
    tasks_per_s: given.number('tasks-per-s', { min: 0.001, max: 10_000_000 }) ?? 0,
    payload_bytes: given.number('payload-bytes', { min: 0, max: 262_144 }) ?? COSTS.payload_bytes,
    answer_bytes: given.number('answer-bytes', { min: 0, max: 1e9 }) ?? 0,
    retention_s: durationMs('retention', given.text('retention') ?? '7d', 3_650) / 1_000,
    call_ms: given.number('call-ms', { min: 0, max: 900_000 }) ?? 100,
    attempts: given.number('attempts', { min: 1, max: 26 }) ?? 1.05,
    waiting: given.number('waiting', { min: 0, max: 1e12 }) ?? 0,
    single: given.flag('single'),
  };
  const made = planFor(load);
  show(given.json, { load, plan: made, measured: COSTS.measured }, () => planText(load, made));
  return EXIT.done;
}

export function planFor(load: Load): Plan {
  const { tasks_per_s, attempts, call_ms } = load;
  const bytes_per_task = Math.round(
    (load.single ? COSTS.single_bytes : COSTS.waiting_bytes) -
      COSTS.payload_bytes +
      load.payload_bytes +
      RESULT_BYTES +
      Math.min(ANSWER_BYTES_MAX, load.answer_bytes),
  );
  const tasks_kept = Math.round(tasks_per_s * (load.single ? SINGLE_KEPT_S : load.retention_s) + load.waiting);
  const data_bytes = tasks_kept * bytes_per_task;
  const maxmemory = data_bytes / MEMORY_SHARE;

  const create_us = load.single ? COSTS.single_us : COSTS.create_us;
  const api_cores = (tasks_per_s * create_us) / 1e6;
  // What the end-to-end figure holds beside the creating, for each call.
  const call_cores = (tasks_per_s * attempts * (COSTS.engine_us - COSTS.create_us)) / 1e6;
  const redis_cores = (tasks_per_s * attempts * (load.single ? COSTS.single_redis_us + COSTS.redis_us : COSTS.redis_us)) / 1e6;
  const in_flight = Math.ceil((tasks_per_s * attempts * call_ms) / 1_000);

  const masters = Math.max(1, Math.ceil(redis_cores / BUSY_SHARE), Math.ceil(maxmemory / MASTER_BYTES_MAX));
  const threads_wanted = Math.max(1, Math.ceil(call_cores / BUSY_SHARE), Math.ceil(in_flight / IN_FLIGHT_PER_THREAD));
  const processes = Math.max(PROCESSES_MIN, Math.ceil(api_cores / BUSY_SHARE), Math.ceil(threads_wanted / THREADS_MAX));
  const threads_per_process = Math.ceil(threads_wanted / processes);
  const threads = threads_per_process * processes;
  return {
    partitions: powerOfTwo(Math.max(PARTITIONS_MIN, threads * PARTITIONS_PER_THREAD, masters * PARTITIONS_PER_MASTER)),
    redis: {
      masters,
      data_bytes,
      maxmemory_bytes: Math.ceil(maxmemory / masters),
      machine_bytes: Math.ceil((maxmemory * MACHINE_TO_MAXMEMORY) / masters),
      cpu_cores: round(redis_cores),
    },
    sluice: { processes, threads_per_process, threads, cpu_cores: round(api_cores + call_cores), calls_in_flight: in_flight },
    tasks_kept,
    bytes_per_task,
  };
}

function powerOfTwo(least: number): number {
  return Math.min(PARTITIONS_MAX, 2 ** Math.ceil(Math.log2(least)));
}

function round(value: number): number {
  return Number(value.toPrecision(2));
}

function planText(load: Load, { partitions, redis, sluice, tasks_kept, bytes_per_task }: Plan): string {
  const many =
    redis.masters > 1 ? `${redis.masters} masters of a Cluster, each with a replica` : 'one master (and a replica, with Sentinel)';
  const text = facts([
    ['partitions', `${partitions} (SLUICE_PARTITIONS at the first start, \`sluice partitions grow\` later)`],
    ['redis', many],
    ['  data', `${bytes(redis.data_bytes)}: ${number(tasks_kept)} tasks of ${number(bytes_per_task)} bytes`],
    ['  maxmemory', `${bytes(redis.maxmemory_bytes)} each, on machines with ${bytes(redis.machine_bytes)}`],
    ['  CPU', `${redis.cpu_cores} cores`],
    ['processes', `${sluice.processes}, with SLUICE_CALLBACK_THREADS=${sluice.threads_per_process} each`],
    ['  CPU', `${sluice.cpu_cores} cores`],
    ['  calls in flight', number(sluice.calls_in_flight)],
  ]);
  const advice: string[] = [];
  if (redis.data_bytes > 8 * 1_024 ** 3 && !load.single)
    advice.push('Most of the memory is for finished batches: SLUICE_RETENTION makes it smaller.');
  if (load.single && load.tasks_per_s > 2_000) advice.push('Batches are cheaper: a task of a batch costs a ninth of the CPU to create.');
  return [text, ...advice, `Measured: ${COSTS.measured}, payload of ${COSTS.payload_bytes} bytes; half of each core stays free.`].join(
    '\n',
  );
}
