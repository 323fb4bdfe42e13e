// From measured runs to the parts that the simulation needs, and how far it then is from the runs that it was not given.
//
// Three costs cannot be read off a row: what a turn costs a thread and Redis beside its tasks, and what it costs a thread to wake. They come
// from two runs of row `scale_out`, one process and four, of which the simulation says how many turns and wake-ups a task had. The other
// runs are predictions. Where a cost comes out below zero it is taken to be none, so that even the runs that were given are not met exactly.
import { ASSUMED, type Costs, type Measured, SCALE_OUT_PER_S } from './costs.ts';
import { type Outcome, type Parts, simulate } from './simulate.ts';

const PARTITIONS = 16;
const TASKS = 4_000;
const ROUNDS = 12;
/** Of what a task costs in full batches, what is at least its own. */
const REST_MIN = 0.2;

export interface Fit {
  name: string;
  measured: number;
  modelled: number;
  /** Of the measured value. */
  error: number;
  /** Whether the model was given this one. */
  given: boolean;
}

export interface Model {
  parts: Parts;
  /** Tasks that a turn carries where work waits. */
  fill: number;
  fits: Fit[];
}

export function calibrate(costs: Costs): Model {
  const [one, four] = [measuredOf(costs, 1, 1), measuredOf(costs, 4, 1)];
  const { round_trip_us, call_us } = ASSUMED;
  // The front door's part of a task is not in these threads.
  const call_engine_us = costs.task_engine_us - costs.create_us;
  let parts: Parts = {
    ...{ task_engine_us: call_engine_us, task_redis_us: costs.task_redis_us, turn_engine_us: 50, turn_redis_us: 50, wake_us: 20 },
    ...{ round_trip_us, call_us },
  };
  for (let i = 0; i < ROUNDS; i++) {
    const full = allAtOnce(parts);
    const [at_one, at_four] = [dueAlone(parts, 1, 1), dueAlone(parts, 4, 1)];
    const engine_us = parts.task_engine_us + costs.create_us;
    const [turn_us, wake_us] = solve(
      [at_one.turns_a_task, at_one.wakes_a_task, one.engine_us - engine_us - idleOf(costs, 1)],
      [at_four.turns_a_task, at_four.wakes_a_task, four.engine_us - engine_us - idleOf(costs, 4)],
    );
    const redis_us =
      Math.max(
        0,
        (one.redis_us - parts.task_redis_us) / at_one.turns_a_task + (four.redis_us - parts.task_redis_us) / at_four.turns_a_task,
      ) / 2;
    // What a task costs in full batches has its part of their turns in it already.
    const left = (whole: number, shared: number): number => Math.max(whole * REST_MIN, whole - shared);
    // Half of the way, so that it comes to rest: the numbers of turns depend on what they cost.
    parts = {
      ...parts,
      task_engine_us: left(call_engine_us, full.turns_a_task * turn_us + full.wakes_a_task * wake_us),
      task_redis_us: left(costs.task_redis_us, full.turns_a_task * redis_us),
      turn_engine_us: (parts.turn_engine_us + turn_us) / 2,
      turn_redis_us: (parts.turn_redis_us + redis_us) / 2,
      wake_us: (parts.wake_us + wake_us) / 2,
    };
  }
  const runs = costs.scale_out.map(({ processes, masters, engine_us, redis_us }): Fit => {
    const modelled = cpuOf(costs, parts, dueAlone(parts, processes, masters), processes);
    const given = masters === 1 && (processes === 1 || processes === 4);
    return fit(`CPU a task due alone, ${processes} processes, ${masters} masters, µs`, engine_us + redis_us, modelled, given);
  });
  const fill = 1 / allAtOnce(parts).turns_a_task;
  return {
    parts,
    fill,
    fits: [...runs, fit('tasks a second, end to end, all on one machine', costs.saturated_per_s, saturated(costs, parts), false)],
  };
}

/** CPU of all servers and masters for each task of a simulated run. */
function cpuOf(costs: Costs, parts: Parts, { turns_a_task, wakes_a_task }: Outcome, processes: number): number {
  const turn_us = parts.turn_engine_us + parts.turn_redis_us;
  const task_us = parts.task_engine_us + parts.task_redis_us + costs.create_us;
  return task_us + idleOf(costs, processes) + turns_a_task * turn_us + wakes_a_task * parts.wake_us;
}

function allAtOnce(parts: Parts): Outcome {
  return simulate(parts, { threads: 1, masters: 1, partitions: PARTITIONS }, { tasks: TASKS * 5, per_s: null });
}

/** Whichever is full first: the cores that all share, or the one thread that calls. */
function saturated(costs: Costs, parts: Parts): number {
  const full = allAtOnce(parts);
  const machine = (costs.cores * 1e6) / (costs.task_engine_us + costs.task_redis_us + costs.receiver_us);
  return Math.min(full.tasks_per_s, machine);
}

function dueAlone(parts: Parts, processes: number, masters: number): Outcome {
  // A server on two cores has one callback thread.
  return simulate(parts, { threads: processes, masters, partitions: PARTITIONS }, { tasks: TASKS, per_s: SCALE_OUT_PER_S });
}

function idleOf({ idle_us_per_s }: Costs, processes: number): number {
  return (idle_us_per_s * processes) / SCALE_OUT_PER_S;
}

function measuredOf({ scale_out }: Costs, processes: number, masters: number): Measured {
  const found = scale_out.find((run) => run.processes === processes && run.masters === masters);
  if (found === undefined) throw new Error(`No run was measured with ${processes} processes and ${masters} masters.`);
  return found;
}

type Row = readonly [x: number, y: number, sum: number];

/** Both unknowns of two equations, neither below zero. */
function solve([a, b, c]: Row, [d, e, f]: Row): [number, number] {
  const under = a * e - b * d;
  const [x, y] = [(c * e - b * f) / under, (a * f - c * d) / under];
  if (Number.isFinite(y) && y > 0 && x > 0) return [x, y];
  return y > 0 ? [0, (c + f) / (b + e)] : [(c + f) / (a + d), 0];
}

function fit(name: string, measured: number, modelled: number, given: boolean): Fit {
  return { name, measured, modelled, error: (modelled - measured) / measured, given };
}
