// Looks for what should not be: batches whose counters are not what their tasks say, work that nothing leads to. Every minute it
// goes once over all keys of all partitions, in slices, and sets right what it finds; one thread of all processes does, since a scan
// brings the keys of all.
//
//   scan ──▶ keys that lead to others: put back          batches that rest, with work left
//        └─▶ batches: counted, set right ──────────────────────────────┐
//                                                                      ▼
//   what holds the tasks of those that did not change since the pass before? ──▶ forgotten twice: queued again
//
// Nothing of it is ever needed while Redis keeps what it was told: each repair is logged and counted, and the count is zero in a
// healthy installation. Two that reconcile one partition are harmless: every repair compares what it was decided on.
import { setTimeout as pause } from 'node:timers/promises';
import { monotonicMs, systemClock } from '../base/clock.ts';
import { base62 } from '../base/id.ts';
import { type LimitedLog, type Log, limitedLog } from '../base/log.ts';
import type { Service } from '../base/service.ts';
import type { Keep } from '../store/batches.ts';
import { forgotten, type Holding, markHeld } from '../store/held.ts';
import { scanPartitions } from '../store/keyspace.ts';
import { count, type Inspected, inspect, isLive, isRight, mend, type RepairMeter, repair, requeue, type Span } from '../store/reconcile.ts';
import type { RedisClient } from '../store/script.ts';
import { stretchesOf } from './requeue.ts';

export interface ReconcilerDeps {
  client: RedisClient;
  keep: Keep;
  /** Whether this thread is the one. Two of them for a while do no harm. */
  chosen(): boolean;
  /** From one pass to the next. */
  pass_ms: number;
  /** Of a connection's time what a pass may take; a tenth by default. */
  share?: number;
  repaired: RepairMeter;
  log: Log;
}

/** Batches in one look, and keys in one call that puts back what leads to them. */
const INSPECT_MAX = 100;
const MEND_MAX = 200;
/** Batches that are remembered from one pass to the next; others are looked at when there is room. */
const RESTING_MAX = 20_000;
/** Tasks whose holders are looked for in one pass: a byte of memory each. */
const TASKS_MAX = 16_777_216;
/** Of one partition; with more flows than that nobody looks for what they hold. */
const FLOWS_MAX = 50_000;
/** Batches that have ended are looked at every so many passes; those made in so long always. */
const TURNS = 16;
const NEW_MS = 600_000;
/** What was all held is looked at again after so many passes at the most. */
const CALM_PASSES_MAX = 16;
const SHARE = 0.1;

/** A batch with work left as a pass before saw it. */
interface Resting {
  seen: string;
  /** Passes until it is looked at again, and how many those were the last time. */
  in_passes: number;
  calm: number;
  /** What nothing held when it was looked at last. */
  lost: Lost | null;
}

type Lost = Awaited<ReturnType<typeof forgotten>>;

export class Reconciler implements Service {
  readonly name = 'reconciler';
  readonly #deps: ReconcilerDeps;
  readonly #log: LimitedLog;
  readonly #stopping = new AbortController();
  #resting = new Map<string, Resting>();
  /** Partitions that were gone over once. */
  readonly #known = new Set<number>();
  #turn = 0;
  #running: Promise<void> = Promise.resolve();

  constructor(deps: ReconcilerDeps) {
    this.#deps = deps;
    this.#log = limitedLog(deps.log);
  }

  async start(): Promise<void> {
    this.#running = this.#passes();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #passes(): Promise<void> {
    const { signal } = this.#stopping;
    let wait_ms = this.#deps.pass_ms * (0.5 + Math.random());
    while (await pause(wait_ms, true, { signal, ref: false }).catch(() => false)) {
      wait_ms = this.#deps.pass_ms;
      if (!this.#deps.chosen()) continue;
      await this.pass().catch((error: unknown) => {
        if (!signal.aborted) this.#log.warn({ err: error }, 'a look through all batches was broken off and will be repeated');
      });
    }
  }

  /** Goes over everything once. */
  async pass(): Promise<void> {
    const breathe = this.#breather();
    const holdings = new Map<number, { flows: Set<string>; holders: Set<string> }>();
    const resting = new Map<string, Resting>();
    const suspects = new Map<number, Inspected[]>();
    for await (const page of scanPartitions(this.#deps.client)) {
      await breathe();
      for (const [partition, names] of page) {
        const holding = holdings.get(partition) ?? { flows: new Set(), holders: new Set() };
        holdings.set(partition, holding);
        await this.#mend(partition, leading(names, holding), breathe);
        const cores = names.flatMap((name) => /^b:(\w{18}n?)$/.exec(name)?.[1] ?? []).filter((core) => this.#isDue(partition, core));
        for (let i = 0; i < cores.length; i += INSPECT_MAX) {
          for (const batch of await inspect(this.#deps.client, partition, cores.slice(i, i + INSPECT_MAX), this.#deps.keep)) {
            if (batch.ended && !batch.misplaced) continue;
            await this.#count(batch);
            await breathe();
            if (this.#rests(batch, resting)) suspects.set(partition, [...(suspects.get(partition) ?? []), batch]);
          }
          await breathe();
        }
      }
    }
    this.#resting = resting;
    for (const partition of holdings.keys()) this.#known.add(partition);
    this.#turn += 1;
    let tasks_left = TASKS_MAX;
    for (const [partition, batches] of suspects) {
      const chosen = batches.filter((batch) => {
        tasks_left -= batch.states;
        return tasks_left >= 0;
      });
      const { flows, holders } = holdings.get(partition) ?? { flows: new Set(), holders: new Set() };
      if (flows.size < FLOWS_MAX) await this.#lookFor(partition, chosen, { flows: [...flows], holders: [...holders] }, breathe);
    }
  }

  /** Most batches have ended: those that were not at work in the pass before, and are not new, are looked at by turns. */
  #isDue(partition: number, core: string): boolean {
    if (!this.#known.has(partition) || this.#resting.has(core)) return true;
    // Their times are of other clocks; a batch that is missed has its turn.
    if (core.slice(2, 9) >= base62(systemClock() - NEW_MS, 7)) return true;
    return core.charCodeAt(17) % TURNS === this.#turn % TURNS;
  }

  async #mend(partition: number, names: readonly string[], breathe: () => Promise<void>): Promise<void> {
    for (let i = 0; i < names.length; i += MEND_MAX) {
      const mended = await mend(this.#deps.client, partition, names.slice(i, i + MEND_MAX));
      for (const [what, number] of mended) this.#deps.repaired({ partition }, what, number);
      await breathe();
    }
  }

  async #count(batch: Inspected): Promise<void> {
    const { client, keep } = this.#deps;
    if (isRight(batch, await count(client, batch))) return;
    const done = await repair(client, batch, keep);
    if (done.kind === 'done') for (const what of done.repaired) this.#deps.repaired({ before: batch }, what, 1);
  }

  /** Whether a batch with work left is as it was in the pass before, and its time has come. */
  #rests(batch: Inspected, resting: Map<string, Resting>): boolean {
    const { core, seen, total, completed, failed, cancelled, running } = batch;
    if (resting.size >= RESTING_MAX) return false;
    if (running === 0 && (!isLive(batch) || total === completed + failed + cancelled)) return false;
    const before = this.#resting.get(core);
    const now = before?.seen === seen ? { ...before, in_passes: before.in_passes - 1 } : { seen, in_passes: 1, calm: 0, lost: null };
    resting.set(core, now);
    return now.in_passes <= 0;
  }

  /** Looks through all queues of a partition for the tasks of these batches. */
  async #lookFor(partition: number, batches: readonly Inspected[], holding: Holding, breathe: () => Promise<void>): Promise<void> {
    const { client } = this.#deps;
    const held = new Map(batches.map((batch) => [batch.core, { batch, by: new Uint8Array(batch.states) }]));
    await markHeld(client, partition, held, holding, breathe);
    for (const { batch, by } of held.values()) {
      const lost = await forgotten(client, batch, by);
      const known = this.#resting.get(batch.core);
      if (known === undefined) continue;
      const twice = known.lost === null ? null : both(known.lost, lost);
      const found = lost.undealt || lost.runs.length > 0;
      known.calm = found ? 0 : Math.min(CALM_PASSES_MAX, Math.max(1, known.calm * 2));
      known.in_passes = Math.max(1, known.calm);
      known.lost = found ? lost : null;
      if (twice !== null && (twice.undealt || twice.runs.length > 0)) await this.#requeue(batch, twice);
      await breathe();
    }
  }

  async #requeue(batch: Inspected, lost: Lost): Promise<void> {
    const { client, keep } = this.#deps;
    let { seen } = batch;
    for await (const stretches of stretchesOf(client, batch, lost)) {
      const done = await requeue(client, { core: batch.core, seen }, stretches, keep);
      if (done.seen === '') return;
      seen = done.seen;
      if (done.waited > 0) this.#deps.repaired({ batch: batch.core }, 'queue', done.waited);
      if (done.flew > 0) this.#deps.repaired({ batch: batch.core }, 'flight', done.flew);
    }
  }

  /** Waits so long that what was done since the last wait is its share of the time. Rejects when it is to stop. */
  #breather(): () => Promise<void> {
    const { share = SHARE } = this.#deps;
    let since_ms = monotonicMs();
    return async () => {
      const worked_ms = monotonicMs() - since_ms;
      await pause(Math.min(1_000, worked_ms / share - worked_ms), null, { signal: this.#stopping.signal, ref: false });
      since_ms = monotonicMs();
    };
  }
}

/** The names by which something leads to work, flows and holders remembered in `holding`. */
function leading(names: readonly string[], holding: { flows: Set<string>; holders: Set<string> }): string[] {
  return names.filter((name) => {
    if (/^f:[frn]:\w+:[\w*]+$/.test(name) && holding.flows.size < FLOWS_MAX) holding.flows.add(name.slice(2));
    else if (name.startsWith('active:')) holding.holders.add(name.slice('active:'.length));
    else return name === 'away' || /^(f:|outbox:\d+$)/.test(name);
    return true;
  });
}

/** What two looks have in common. */
function both(one: Lost, other: Lost): Lost {
  const runs: Span[] = [];
  for (let i = 0, k = 0; i < one.runs.length && k < other.runs.length; ) {
    const [a, b] = [one.runs[i] as Span, other.runs[k] as Span];
    const [from, to] = [Math.max(a[0], b[0]), Math.min(a[1], b[1])];
    if (from <= to) runs.push([from, to]);
    if (a[1] < b[1]) i += 1;
    else k += 1;
  }
  return { runs, undealt: one.undealt && other.undealt };
}
