// What one row of the table is: Sluice and its peers do the same work in turns, and a measure sets their figures in relation.
import { availableParallelism } from 'node:os';
import { Api } from '../lib/api.ts';
import type { Figures, Stage } from '../lib/bench.ts';
import { Engine } from '../lib/engine.ts';
import { batchBody, payload } from '../lib/payload.ts';
import type { Receiver } from '../lib/receiver.ts';

/** What all sides of all rows stand on. */
export interface Ground {
  /** What Sluice is started from. */
  entry: string;
  receiver: Receiver;
  /** Seconds instead of minutes: does every row still run, and count right? */
  smoke: boolean;
  /** One engine for all rows, where only that they run is of interest. */
  shared?: Stage;
}

/** One system, started, warm, and ready to do the work once, and again. */
export interface Side {
  once(): Promise<Figures>;
  /** Of all that was done so far together, where that says more than a repeat: a percentile of few samples is luck. */
  together?(): Figures;
  close(): Promise<void>;
}

export interface Row {
  name: string;
  what: string;
  sluice(ground: Ground): Promise<Side>;
  /** By name; a sentence where a peer cannot be here. */
  peers: Record<string, (ground: Ground) => Promise<Side | string>>;
  measures: readonly Measure[];
}

/** `sluice` and `peer` are SIDE.FIGURE. What is held against `must` and `aim` is the value; both null: only shown. */
export interface Measure {
  number: string;
  measure: string;
  sluice: string;
  peer?: string;
  value: 'sluice' | 'sluice/peer' | 'peer/sluice';
  better: 'higher' | 'lower';
  must: number | null;
  aim: number | null;
  /** What is held against them is of all repeats together, and no median. */
  together?: boolean;
}

/** How often ours goes into BullMQ's, of a figure of which less is better. */
export function timesBelowBullmq(number: string, what: string, field: string, must: number, aim: number): Measure {
  const [value, better] = ['peer/sluice', 'higher'] as const;
  return { number, measure: `${what}: BullMQ ÷ Sluice`, sluice: `sluice.${field}`, peer: `bullmq.${field}`, value, better, must, aim };
}

/** The payload that the table is about. */
export const BYTES = 200;
export const EACH = 1_000;
export const HOUR_MS = 3_600_000;
/**
 * Tasks that each side has made, end to end, before anything is measured. What Node compiles while it gets warm it
 * compiles on the cores that everybody shares: CPU a task of a server falls by a third over its first 200,000.
 */
export const WARM_UP = 200_000;

/** Callback threads of an engine that has a machine for itself, but for who loads it (docs/decisions/0062). */
export const CALLBACK_THREADS = availableParallelism();

/** What an engine needs to be asked for what it says nobody else. */
interface Asked {
  node_args: readonly string[];
  env: Record<string, string>;
}

/** An engine of its own with what is on by default, and its API. */
export async function startStage({ entry, receiver, smoke, shared }: Ground, asked?: Asked): Promise<Stage & { stop(): Promise<void> }> {
  if (shared !== undefined && asked === undefined) return { ...shared, stop: async () => {} };
  const env = { SLUICE_CALLBACK_THREADS: String(CALLBACK_THREADS), ...asked?.env };
  const engine = await Engine.start({ entry, node_args: asked?.node_args ?? [], env });
  const api = new Api(engine, { patient: smoke });
  const stop = async (): Promise<void> => {
    await api.close();
    await engine.stop();
  };
  return { engine, entry, receiver, api, smoke, stop };
}

/** A task with a payload of 200 bytes, as it is sent. */
export function tableTask(url: string, number: number, fields: object = {}): object {
  return { target: { url, method: 'POST' }, payload: payload(number, BYTES), ...fields };
}

export function tableBodies(url: string, count: number, fields: object = {}, each = EACH): Buffer[] {
  return Array.from({ length: Math.ceil(count / each) }, (_, batch) => {
    const size = Math.min(each, count - batch * each);
    return batchBody(Array.from({ length: size }, (_, i) => tableTask(url, batch * each + i, fields)));
  });
}

/** Fails where a receiver was called more or less often than there were tasks. */
export async function exactly(receiver: Receiver, count: number): Promise<void> {
  const received = await receiver.count();
  if (received !== count) throw new Error(`${received} requests came in where ${count} were expected`);
}

/** CPU that this process has used: it creates. */
export function ownCpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}
