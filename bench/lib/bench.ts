// What every bench is given, and what it gives back.
import type { Api } from './api.ts';
import type { Engine } from './engine.ts';
import type { Receiver } from './receiver.ts';

export interface Stage {
  engine: Engine;
  /** What the engine was started from; a bench may start more. */
  entry: string;
  receiver: Receiver;
  api: Api;
  /** Seconds instead of minutes: does every bench still run, and count right? */
  smoke: boolean;
}

/** A figure's name carries its unit; `null` where the system does not tell. */
export type Figures = Record<string, number | null>;

export interface Bench {
  name: string;
  what: string;
  /** It is not repeated: it does its work often enough by itself, once is all there is to it, or it leaves much behind that waits. */
  once?: true;
  run(stage: Stage): Promise<Figures>;
}

export interface CpuMark {
  engine: number;
  redis: number;
  receiver: number;
}

export function cpuMark({ engine, receiver }: Stage): CpuMark {
  return { ...engine.cpu_s(), receiver: receiver.cpu_s() };
}

/** CPU that each process spent since `from`, in microseconds for each of `count` pieces of work. */
export function cpuEach(from: CpuMark, to: CpuMark, count: number): CpuMark {
  const each = (name: keyof CpuMark): number => ((to[name] - from[name]) * 1e6) / count;
  return { engine: each('engine'), redis: each('redis'), receiver: each('receiver') };
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
