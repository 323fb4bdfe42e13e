// A discrete-event simulation of callback threads and Redis masters: when turns begin, what shares them, who waits for whom.
//
// It has the rules of delivery/pump.ts and delivery/outcomes.ts: a partition has one turn at a time; a turn begins when something is due, when
// SETTLE_FLUSH outcomes are there, or when they have waited for company for long enough; it claims CLAIM_MAX tasks at most. A thread and a
// master do what has come in when they are free, all of it at once: that is where turns share a wake-up, and what is lost when the same load is
// spread over more processes.
// What is not in it: the cores, since every thread and every master has one of its own, so a run that shares fewer is slower than this; tasks that a
// thread claims ahead (docs/decisions/0055), threads that help another's partition (0056), and the express thread, which takes single tasks (0063).
import { CLAIM_MAX, SETTLE_COMPANY, SETTLE_DELAY_MS, SETTLE_DELAY_MS_MAX, SETTLE_FLUSH } from '../../src/base/limits.ts';

export interface Parts {
  /** For each task, beside turns. */
  task_engine_us: number;
  task_redis_us: number;
  /** For each turn, however many tasks it has. */
  turn_engine_us: number;
  turn_redis_us: number;
  /** For each time that a thread wakes, and each connection that it then writes to. */
  wake_us: number;
  round_trip_us: number;
  call_us: number;
}

export interface Deployment {
  /** Callback threads of all processes; each has one connection to each master that it has partitions of. */
  threads: number;
  masters: number;
  partitions: number;
}

export interface Load {
  tasks: number;
  /** null: all are there at once. */
  per_s: number | null;
  /** Share of the tasks that lie in one partition; the others are anywhere. */
  hot_share?: number;
  seed?: number;
}

export interface Outcome {
  /** Until the last task was settled. */
  took_s: number;
  tasks_per_s: number;
  turns_a_task: number;
  wakes_a_task: number;
  /** Of a core, while it ran. */
  busiest_thread: number;
  busiest_master: number;
  /** From when a task was due until it was called. */
  late_p50_ms: number;
  late_p99_ms: number;
}

interface Turn {
  partition: Partition;
  settling: number;
  claimed: number[];
}

interface Partition {
  thread: Machine;
  master: Machine;
  /** Times at which tasks are due, ascending; those before `at` are claimed. */
  due_us: number[];
  at: number;
  /** Claimed and not told to Redis, `outcomes` among them. */
  under_way: number;
  outcomes: number;
  first_outcome_us: number;
  running: boolean;
  /** A timer that is set, so that there is only one. */
  timer_us: number;
}

/** A thread or a master: takes all that has come in when it is free. */
interface Machine {
  inbox: (() => number)[];
  busy: boolean;
  busy_us: number;
  wake_us: number;
  /** What goes out when it has done what it took, by whom it goes to. */
  outbox: Map<Machine, (() => number)[]>;
}

/** When the outcomes of a partition have waited for long enough; as delivery/outcomes.ts has it. */
function settleAt({ outcomes, under_way, first_outcome_us }: Partition): number {
  if (outcomes === 0) return Number.POSITIVE_INFINITY;
  const all = outcomes >= under_way;
  if (outcomes >= SETTLE_FLUSH || (all && outcomes >= SETTLE_COMPANY)) return first_outcome_us;
  return first_outcome_us + (all ? SETTLE_DELAY_MS : SETTLE_DELAY_MS_MAX) * 1_000;
}

export function simulate(parts: Parts, deployment: Deployment, load: Load): Outcome {
  const queue = new EventQueue();
  const random = randomOf(load.seed ?? 1);
  const machine = (wake_us: number): Machine => ({ inbox: [], busy: false, busy_us: 0, wake_us, outbox: new Map() });
  const threads = Array.from({ length: deployment.threads }, () => machine(parts.wake_us));
  // What a master spends on being woken is in its turns: its cost does not change with the number of those who ask.
  const masters = Array.from({ length: deployment.masters }, () => machine(0));
  const partitions = Array.from({ length: deployment.partitions }, (_, i): Partition => {
    const at = <T>(list: readonly T[]): T => list[i % list.length] as T;
    return {
      ...{ thread: at(threads), master: at(masters), due_us: [], at: 0 },
      ...{ under_way: 0, outcomes: 0, first_outcome_us: 0, running: false, timer_us: Number.POSITIVE_INFINITY },
    };
  });
  for (let i = 0; i < load.tasks; i++) {
    const hot = random() < (load.hot_share ?? 0);
    const partition = partitions[hot ? 0 : Math.floor(random() * partitions.length)] as Partition;
    partition.due_us.push(load.per_s === null ? 0 : (i * 1e6) / load.per_s);
  }

  let [now_us, settled, turns, wakes] = [0, 0, 0, 0];
  const late_ms: number[] = [];

  const arrive = (to: Machine, work: () => number): void => {
    to.inbox.push(work);
    serve(to);
  };
  const serve = (one: Machine): void => {
    if (one.busy || one.inbox.length === 0) return;
    one.busy = true;
    const work = one.inbox;
    one.inbox = [];
    let took_us = 0;
    for (const each of work) took_us += each();
    took_us += (1 + one.outbox.size) * one.wake_us;
    if (one.wake_us > 0) wakes += 1 + one.outbox.size;
    const out = one.outbox;
    one.outbox = new Map();
    one.busy_us += took_us;
    queue.add(now_us + took_us, () => {
      one.busy = false;
      for (const [to, messages] of out) {
        const all = (): number => messages.reduce((sum, each) => sum + each(), 0);
        queue.add(now_us + parts.round_trip_us / 2, () => arrive(to, all));
      }
      serve(one);
    });
  };
  const send = (from: Machine, to: Machine, work: () => number): void => {
    const waiting = from.outbox.get(to);
    if (waiting === undefined) from.outbox.set(to, [work]);
    else waiting.push(work);
  };

  /** What the thread does for a partition when it looks at it; its cost. */
  const look = (partition: Partition): number => {
    const next_due_us = partition.due_us[partition.at] ?? Number.POSITIVE_INFINITY;
    const settle_us = settleAt(partition);
    if (partition.running) return 0;
    if (settle_us > now_us && next_due_us > now_us) {
      const at_us = Math.min(next_due_us, settle_us);
      if (at_us < partition.timer_us) {
        partition.timer_us = at_us;
        queue.add(at_us, () => {
          if (partition.timer_us !== at_us) return;
          partition.timer_us = Number.POSITIVE_INFINITY;
          arrive(partition.thread, () => look(partition));
        });
      }
      return 0;
    }
    partition.running = true;
    turns += 1;
    const turn: Turn = { partition, settling: partition.outcomes, claimed: [] };
    partition.under_way -= partition.outcomes;
    partition.outcomes = 0;
    send(partition.thread, partition.master, () => redisTurn(turn));
    return parts.turn_engine_us / 2;
  };
  const redisTurn = (turn: Turn): number => {
    const { partition } = turn;
    while (turn.claimed.length < CLAIM_MAX && (partition.due_us[partition.at] ?? Number.POSITIVE_INFINITY) <= now_us)
      turn.claimed.push(partition.due_us[partition.at++] ?? 0);
    settled += turn.settling;
    send(partition.master, partition.thread, () => answered(turn));
    return parts.turn_redis_us + (parts.task_redis_us * (turn.claimed.length + turn.settling)) / 2;
  };
  const answered = ({ partition, claimed }: Turn): number => {
    partition.running = false;
    partition.under_way += claimed.length;
    for (const due_us of claimed) late_ms.push((now_us - due_us) / 1_000);
    if (claimed.length > 0) {
      const begun_us = parts.task_engine_us * claimed.length;
      queue.add(now_us + begun_us + parts.call_us, () => arrive(partition.thread, () => ended(partition, claimed.length)));
    }
    return parts.turn_engine_us / 2 + parts.task_engine_us * claimed.length + look(partition);
  };
  const ended = (partition: Partition, count: number): number => {
    if (partition.outcomes === 0) partition.first_outcome_us = now_us;
    partition.outcomes += count;
    return look(partition);
  };

  for (const partition of partitions)
    if (partition.due_us.length > 0) queue.add(partition.due_us[0] ?? 0, () => arrive(partition.thread, () => look(partition)));
  while (settled < load.tasks) {
    const event = queue.next();
    if (event === null) throw new Error(`The simulation stands still at ${settled} of ${load.tasks} tasks.`);
    now_us = event.at_us;
    event.run();
  }
  late_ms.sort((a, b) => a - b);
  const busiest = (all: readonly Machine[]): number => Math.max(...all.map(({ busy_us }) => busy_us)) / now_us;
  return {
    took_s: now_us / 1e6,
    tasks_per_s: (load.tasks * 1e6) / now_us,
    turns_a_task: turns / load.tasks,
    wakes_a_task: wakes / load.tasks,
    busiest_thread: busiest(threads),
    busiest_master: busiest(masters),
    late_p50_ms: late_ms[Math.floor(late_ms.length * 0.5)] ?? Number.NaN,
    late_p99_ms: late_ms[Math.floor(late_ms.length * 0.99)] ?? Number.NaN,
  };
}

interface Event {
  at_us: number;
  /** Those of one time run in the order in which they were added. */
  number: number;
  run(): void;
}

/** A binary heap, the earliest on top. */
class EventQueue {
  readonly #heap: Event[] = [];
  #added = 0;

  add(at_us: number, run: () => void): void {
    const heap = this.#heap;
    const event = { at_us, number: this.#added++, run };
    let at = heap.length;
    heap.push(event);
    while (at > 0) {
      const above = (at - 1) >> 1;
      const parent = heap[above] as Event;
      if (!isBefore(event, parent)) break;
      heap[at] = parent;
      at = above;
    }
    heap[at] = event;
  }

  next(): Event | null {
    const heap = this.#heap;
    const [first] = heap;
    const last = heap.pop();
    if (first === undefined || last === undefined) return null;
    if (heap.length === 0) return first;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      if (below >= heap.length) break;
      const right = heap[below + 1];
      if (right !== undefined && isBefore(right, heap[below] as Event)) below += 1;
      const child = heap[below] as Event;
      if (!isBefore(child, last)) break;
      heap[at] = child;
      at = below;
    }
    heap[at] = last;
    return first;
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.at_us < b.at_us || (a.at_us === b.at_us && a.number < b.number);
}

/** The same numbers for the same seed (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}
