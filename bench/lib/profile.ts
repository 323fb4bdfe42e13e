// Profiles of all threads of one server, as trees of what was on the stack.
import { existsSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { SourceMap, type SourceMapPayload } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { pause } from './bench.ts';
import type { Engine } from './engine.ts';

const ANSWER_MS_MAX = 20_000;
/** Who has not answered for so long sleeps: jobs come to such threads without their event loop. */
const ASLEEP_MS = 1_000;
const LOOK_AGAIN_MS = 20;

export type Kind = 'cpu' | 'heap';

/** A function as it was called from its parent; `self` in microseconds, or in bytes that it allocated. */
export interface Frame {
  name: string;
  module: string;
  self: number;
  children: Map<string, Frame>;
}

interface CallFrame {
  functionName: string;
  url: string;
  /** Both from 0. */
  lineNumber: number;
  columnNumber: number;
}
interface CpuProfile {
  nodes: { id: number; callFrame: CallFrame; children?: number[] }[];
  samples: number[];
  timeDeltas: number[];
}
interface HeapNode {
  callFrame: CallFrame;
  selfSize: number;
  children: HeapNode[];
}

/** Asks the probe (probe.js) of one server. */
export class Profiler {
  readonly dir: string;
  readonly #engine: () => Engine;
  #number = 0;
  /** Threads that heard that it begins. */
  #awake = 1;

  constructor(engine: () => Engine) {
    this.dir = mkdtempSync(join(tmpdir(), 'sluice-probe-'));
    this.#engine = engine;
  }

  /** What its node needs. */
  get node_args(): string[] {
    return ['--import', new URL('./probe.js', import.meta.url).href];
  }

  get env(): Record<string, string> {
    return { BENCH_PROBE_DIR: this.dir };
  }

  /** The threads that were profiled while `work` ran, by what they do; those of one kind are one. */
  async during(kind: Kind, work: () => Promise<void>): Promise<Frame> {
    await this.#ask(kind);
    await work();
    const root = frame('all threads', '');
    for (const { name, profile } of (await this.#ask('stop')) as { name: string; profile: unknown }[]) {
      const tree = kind === 'cpu' ? cpuTree(profile as CpuProfile) : heapTree((profile as { head: HeapNode }).head);
      merge(childOf(root, name, ''), tree);
    }
    return root;
  }

  remove(): void {
    rmSync(this.dir, { recursive: true, force: true });
  }

  /** The answers of all threads that are awake; one that sleeps between its jobs hears a command with its next job. */
  async #ask(command: Kind | 'stop'): Promise<unknown[]> {
    const number = ++this.#number;
    writeFileSync(join(this.dir, 'command.part'), JSON.stringify({ number, command }));
    renameSync(join(this.dir, 'command.part'), join(this.dir, 'command'));
    process.kill(this.#engine().pid, 'SIGUSR2');
    const threads = readdirSync(this.dir).filter((file) => file.startsWith('thread.')).length;
    const began_ms = performance.now();
    const answers = (): string[] => readdirSync(this.dir).filter((file) => file.startsWith(`${number}.`) && file.endsWith('.json'));
    for (let passed_ms = 0; answers().length < threads; passed_ms = performance.now() - began_ms) {
      // The main thread, which is always awake, has the number 0.
      if (passed_ms > ASLEEP_MS && answers().includes(`${number}.0.json`) && answers().length >= this.#awake) break;
      if (passed_ms > ANSWER_MS_MAX) throw new Error('The server does not answer: was it started with the probe?');
      await pause(LOOK_AGAIN_MS);
    }
    const found = answers();
    this.#awake = command === 'stop' ? 1 : found.length;
    return found.map((file) => {
      const answer = JSON.parse(readFileSync(join(this.dir, file), 'utf8')) as { error?: string };
      if (answer.error !== undefined) throw new Error(answer.error);
      return answer;
    });
  }
}

export function frame(name: string, module: string): Frame {
  return { name, module, self: 0, children: new Map() };
}

export function childOf(parent: Frame, name: string, module: string): Frame {
  const key = `${module} ${name}`;
  let child = parent.children.get(key);
  if (child === undefined) {
    child = frame(name, module);
    parent.children.set(key, child);
  }
  return child;
}

export function merge(into: Frame, from: Frame): void {
  into.self += from.self;
  for (const child of from.children.values()) merge(childOf(into, child.name, child.module), child);
}

export function totalOf(node: Frame): number {
  let total = node.self;
  for (const child of node.children.values()) total += totalOf(child);
  return total;
}

/** Time between two samples belongs to the first; what is idle is left out. */
export function cpuTree({ nodes, samples, timeDeltas }: CpuProfile): Frame {
  const self_us = new Map<number, number>();
  for (let i = 0; i + 1 < samples.length; i++) {
    const id = samples[i] ?? 0;
    self_us.set(id, (self_us.get(id) ?? 0) + Math.max(0, timeDeltas[i + 1] ?? 0));
  }
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const build = (id: number, into: Frame): void => {
    const node = byId.get(id);
    if (node === undefined || node.callFrame.functionName === '(idle)') return;
    const own = node.callFrame.functionName === '(root)' ? into : ownOf(node.callFrame, into);
    own.self += self_us.get(id) ?? 0;
    for (const child of node.children ?? []) build(child, own);
  };
  const root = frame('', '');
  if (nodes[0] !== undefined) build(nodes[0].id, root);
  return root;
}

export function heapTree(head: HeapNode): Frame {
  const build = (node: HeapNode, into: Frame): void => {
    const own = node.callFrame.functionName === '(root)' ? into : ownOf(node.callFrame, into);
    own.self += node.selfSize;
    for (const child of node.children) build(child, own);
  };
  const root = frame('', '');
  build(head, root);
  return root;
}

function ownOf({ functionName, url, lineNumber, columnNumber }: CallFrame, into: Frame): Frame {
  const entry = mapOf(url)?.findEntry(lineNumber, columnNumber);
  // What is bundled stands where it was written.
  const place =
    entry !== undefined && 'originalSource' in entry ? { url: new URL(entry.originalSource, url).href, line: entry.originalLine } : null;
  const name = functionName === '' ? `(anonymous, line ${(place?.line ?? lineNumber) + 1})` : functionName;
  return childOf(into, name, moduleOf(place?.url ?? url));
}

const maps = new Map<string, SourceMap | null>();

function mapOf(url: string): SourceMap | null {
  let map = maps.get(url);
  if (map === undefined) {
    const path = url.startsWith('file:') ? `${fileURLToPath(url)}.map` : '';
    map = existsSync(path) ? new SourceMap(JSON.parse(readFileSync(path, 'utf8')) as SourceMapPayload) : null;
    maps.set(url, map);
  }
  return map;
}

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/** `store/batches` of ours, `undici` of a package, `node:net` of Node itself. */
export function moduleOf(url: string): string {
  if (url === '') return '(native)';
  if (url.startsWith('node:')) return url;
  const path = url.startsWith('file:') ? fileURLToPath(url) : url;
  const [, library] = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path) ?? [];
  if (library !== undefined) return library;
  return path
    .replace(ROOT, '')
    .replace(/^(src|dist)\//, '')
    .replace(/\.[cm]?[jt]s$/, '');
}

/** Self of each function, and of each module, the largest first. */
export function tops(root: Frame): { functions: [string, number][]; modules: [string, number][] } {
  const functions = new Map<string, number>();
  const modules = new Map<string, number>();
  const walk = (node: Frame): void => {
    const name = node.module === '' || node.module === '(native)' ? node.name : `${node.name}  ${node.module}`;
    const module = node.name === '(garbage collector)' ? node.name : node.module;
    if (node.self > 0) {
      functions.set(name, (functions.get(name) ?? 0) + node.self);
      modules.set(module, (modules.get(module) ?? 0) + node.self);
    }
    for (const child of node.children.values()) walk(child);
  };
  walk(root);
  const sorted = (all: Map<string, number>): [string, number][] => [...all].sort(([, a], [, b]) => b - a);
  return { functions: sorted(functions), modules: sorted(modules) };
}
