// What a fault of the matrix is, and what is said about it in the end.
import type { Scene } from './scene.ts';

/** One way to break things. A row of the matrix has one or more. */
export interface Fault {
  /** Of the matrix, 1 to 28. */
  row: number;
  /** Tells the faults of one row apart; empty where there is one. */
  name: string;
  /** What is broken, and with what in hand. */
  what: string;
  /** Redis itself may lose what it has acknowledged: the loss is measured. */
  loses?: true;
  /** Breaks it, waits until all is quiet and judges. */
  run(scene: Scene): Promise<Judgement>;
}

/** What the four sources say: accepted ids, the receivers' log, task states, counters. */
export interface Books {
  /** Tasks whose 2xx was sent. */
  accepted: number;
  /** Of those: gone, or never ended. */
  lost: number;
  /** Completed by its state, but in no receiver's log. */
  uncalled: number;
  /** Calls of a task beyond those that its answers asked for. */
  duplicates: number;
  /** What counters count beyond the tasks in that state. */
  double_counted: number;
  /** Counters that differ from what was accepted or from their own total, and tasks that were called and accepted nowhere. */
  drift: number;
  /** From the end of the fault to the last refused request, or to the last call of what was accepted before it: the later. */
  recovery_s: number;
}

export interface Judgement extends Books {
  /** What the fault may cause. */
  duplicates_max: number;
  /** Further figures, by name. */
  more: Record<string, number>;
  /** What is not as it has to be; empty where all is. */
  faults: string[];
}

/** Thrown where this machine cannot do it: no such tool, no right to mount. */
export class NotHere extends Error {}

export function titleOf({ row, name }: Fault): string {
  return name === '' ? String(row) : `${row} ${name}`;
}
