// Where the time of a task goes, and its memory: all threads of one server under the load of one bench row, as a page with two flame
// graphs (CPU, allocated heap) and lists of what comes first.
//
//   node --import tsx bench/flame.ts [--row end_to_end] [--smoke] [--engine FILE] [--out DIR] [--json]
//
// First the row in its small size, unmeasured, so that code is compiled and connections are open; then it runs twice, since each
// of the two profiles would be in the other. A profile slows its server down: rates measured meanwhile are not those of `make bench`.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { createBatches, createSingles } from './create.ts';
import { endToEnd } from './end-to-end.ts';
import { Api } from './lib/api.ts';
import type { Bench, Stage } from './lib/bench.ts';
import { Engine } from './lib/engine.ts';
import { flamePage } from './lib/flame-page.ts';
import { type Frame, Profiler, tops, totalOf } from './lib/profile.ts';
import { Receiver } from './lib/receiver.ts';
import { mixed } from './mixed.ts';
import { notifications } from './notifications.ts';
import { streams } from './streams.ts';

/** Those that load the server which is profiled with tasks; rows that start servers of their own are not among them. */
const ROWS: readonly Bench[] = [endToEnd, createBatches, createSingles, notifications, streams, mixed];
const FUNCTIONS_SHOWN = 25;
const MODULES_SHOWN = 12;

const { values } = parseArgs({
  options: {
    row: { type: 'string', default: 'end_to_end' },
    smoke: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
    engine: { type: 'string', default: fileURLToPath(new URL('../dist/main.js', import.meta.url)) },
    out: { type: 'string', default: fileURLToPath(new URL('../.make/flame', import.meta.url)) },
  },
});
const row = ROWS.find(({ name }) => name === values.row);
if (row === undefined) throw new Error(`The rows that can be profiled are: ${ROWS.map(({ name }) => name).join(', ')}.`);
if (!existsSync(values.engine)) throw new Error(`There is no ${values.engine}: run "make build" first.`);

interface Window {
  root: Frame;
  tasks: number;
  /** Of the server, by the system; microseconds. */
  cpu_us: number;
}

const receiver = await Receiver.start();
const profiler: Profiler = new Profiler(() => engine);
const engine: Engine = await Engine.start({ entry: values.engine, node_args: profiler.node_args, env: profiler.env });
const api = new Api(engine, { patient: values.smoke });
try {
  const stage: Stage = { engine, entry: values.engine, receiver, api, smoke: values.smoke };
  await row.run({ ...stage, smoke: true });
  const cpu = await watched(stage, row, 'cpu');
  const heap = await watched(stage, row, 'heap');
  mkdirSync(values.out, { recursive: true });
  const file = resolve(join(values.out, `${row.name}.html`));
  const ms = (us: number): string => `${(us / 1_000).toFixed(1)} ms`;
  const mb = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;
  const flames = [
    { title: `CPU, ${ms(totalOf(cpu.root))} over ${cpu.tasks} tasks`, root: cpu.root, shown: ms },
    { title: `Allocated heap, ${mb(totalOf(heap.root))} over ${heap.tasks} tasks`, root: heap.root, shown: mb },
  ];
  writeFileSync(file, flamePage(`${row.name}: ${row.what}`, flames));
  process.stdout.write(values.json ? `${JSON.stringify(line(cpu, heap, file))}\n` : report(cpu, heap, file));
} finally {
  await api.close();
  await engine.stop();
  await receiver.stop();
  profiler.remove();
}

async function watched(stage: Stage, bench: Bench, kind: 'cpu' | 'heap'): Promise<Window> {
  const [tasks, cpu_s] = [await tasksCreated(), stage.engine.cpu_s().engine];
  const root = await profiler.during(kind, async () => void (await bench.run(stage)));
  return { root, tasks: (await tasksCreated()) - tasks, cpu_us: (stage.engine.cpu_s().engine - cpu_s) * 1e6 };
}

/** As the server itself counts them. */
async function tasksCreated(): Promise<number> {
  const text = await (await fetch(`${engine.url}/metrics`)).text();
  return [...text.matchAll(/^sluice_tasks_created_total\{[^}]*\} (\S+)$/gm)].reduce((sum, [, value]) => sum + Number(value), 0);
}

function line(cpu: Window, heap: Window, file: string) {
  const each = ({ root, tasks }: Window): Record<string, number> =>
    Object.fromEntries([...root.children.values()].map((thread) => [thread.name, totalOf(thread) / tasks]));
  const gc = tops(cpu.root).functions.find(([name]) => name === '(garbage collector)')?.[1] ?? 0;
  return {
    row: values.row,
    tasks: cpu.tasks,
    cpu_us_each: totalOf(cpu.root) / cpu.tasks,
    cpu_us_each_by_system: cpu.cpu_us / cpu.tasks,
    gc_us_each: gc / cpu.tasks,
    cpu_us_each_by_thread: each(cpu),
    allocated_bytes_each: totalOf(heap.root) / heap.tasks,
    allocated_bytes_each_by_thread: each(heap),
    file,
  };
}

function report(cpu: Window, heap: Window, file: string): string {
  const figures = line(cpu, heap, file);
  const threads = Object.entries(figures.cpu_us_each_by_thread).map(([name, us]) => {
    const bytes = figures.allocated_bytes_each_by_thread[name] ?? 0;
    return `  ${name.padEnd(34)} ${us.toFixed(1)} µs, ${bytes.toFixed(0)} bytes`;
  });
  const list = (rows: readonly [string, number][], { tasks, root }: Window, shown: number, digits: number): string[] => {
    const total = totalOf(root) || 1;
    const one = ([name, self]: [string, number]): string =>
      `  ${(self / tasks).toFixed(digits).padStart(8)}  ${((self / total) * 100).toFixed(1).padStart(5)} %  ${name}`;
    return rows.slice(0, shown).map(one);
  };
  const [cpu_tops, heap_tops] = [tops(cpu.root), tops(heap.root)];
  return [
    `${values.row}: ${cpu.tasks} tasks; ${figures.cpu_us_each.toFixed(1)} µs of CPU a task in samples (${figures.cpu_us_each_by_system.toFixed(1)} by the system, with the probe's own), ${figures.gc_us_each.toFixed(1)} µs of it collecting garbage; ${figures.allocated_bytes_each.toFixed(0)} bytes of heap allocated a task (buffers outside the heap not counted)`,
    'threads, a task:',
    ...threads,
    'self time by function, µs a task:',
    ...list(cpu_tops.functions, cpu, FUNCTIONS_SHOWN, 2),
    'self time by module, µs a task:',
    ...list(cpu_tops.modules, cpu, MODULES_SHOWN, 2),
    'allocated by function, bytes a task:',
    ...list(heap_tops.functions, heap, FUNCTIONS_SHOWN, 0),
    'allocated by module, bytes a task:',
    ...list(heap_tops.modules, heap, MODULES_SHOWN, 0),
    file,
    '',
  ].join('\n');
}
