// The reference: what a partition does with batches, written as plainly as possible, task by task.
//
// It does not say which tasks a claim picks; it says which it may pick, and that none is left where a claim says so.
import assert from 'node:assert/strict';
import type { Claimed, ClaimReply, Settlement } from '../../src/store/partition.ts';
import type { CheckedBatch } from '../helpers/check-partition.ts';
import { SETTINGS, type TaskSpec } from '../helpers/rig.ts';

export interface ModelTask {
  byte: 'q' | 'r' | 'p' | 'P' | 'c' | 'f' | 'x' | 'e';
  attempts: number;
  recoveries: number;
  timeout_s: number;
  /** When it may run; its entry is in `delayed` until a tick after that. */
  due_ms: number;
  ready: boolean;
  payload: string;
  origin: string;
  /** What a round of the whole batch begins with again. */
  given: { timeout_s: number; origin: string; due_ms: number };
  /** Its round deals it out some time: it may be ready before a tick says so. */
  undealt: boolean;
  /** While it runs. */
  holder: string;
  name: string;
  lease_ms: number;
}

export interface ModelBatch {
  core: string;
  account: string;
  partition: number;
  status: string;
  created_ms: number;
  hold: boolean;
  /** Expiry while it is live, retention end once it is over, null in between. */
  deadline_ms: number | null;
  expires_ms: number;
  finished: boolean;
  tasks: ModelTask[];
  /** Of tasks whose byte still says that they wait. */
  swept: 'f' | 'x' | null;
}

/** What a claim was asked for. */
export interface ModelClaim {
  call_no: number;
  budget: number;
  unpark: readonly string[];
  /** Origins that have less room than all. */
  rooms: readonly (readonly [origin: string, tasks: number])[];
}

interface ModelPartition {
  /** Origins of which flows may be parked. */
  parked: Set<string>;
  marks: Map<string, number>;
  /** holder → number of the last claim that brought something. */
  claims: Map<string, { call_no: number; tasks: Claimed[] }>;
}

/** One less than in production, so that chance gets there. */
export const RECOVERIES_MAX = 3;

const LIVE = new Set(['pending', 'processing', 'tray']);

export class Model {
  now_ms: number;
  readonly batches = new Map<string, ModelBatch>();
  readonly #partitions = new Map<number, ModelPartition>();
  #again_ms: ReadonlyMap<string, number> = new Map();

  constructor(now_ms: number) {
    this.now_ms = now_ms;
  }

  partition(partition: number): ModelPartition {
    const known = this.#partitions.get(partition) ?? { marks: new Map(), claims: new Map(), parked: new Set() };
    this.#partitions.set(partition, known);
    return known;
  }

  live(batch: ModelBatch | undefined): boolean {
    return batch !== undefined && LIVE.has(batch.status);
  }

  create(batch: Pick<ModelBatch, 'core' | 'account' | 'partition' | 'hold'> & { expiration_ms: number }): void {
    const { core, account, partition, hold, expiration_ms } = batch;
    this.batches.set(core, {
      ...{ core, account, partition, hold, status: 'pending', created_ms: this.now_ms, finished: false, tasks: [], swept: null },
      deadline_ms: this.now_ms + expiration_ms,
      expires_ms: this.now_ms + expiration_ms,
    });
  }

  tray(core: string, account: string, partition: number): void {
    const fresh = { status: 'tray', created_ms: this.now_ms, finished: false, tasks: [], swept: null, hold: false };
    this.batches.set(core, { core, account, partition, ...fresh, deadline_ms: null, expires_ms: 0 });
  }

  append(core: string, specs: readonly TaskSpec[], payloads: readonly string[]): void {
    const batch = this.#of(core);
    for (const [i, { due_ms = 0, timeout_s = 30, origin = 'o1' }] of specs.entries()) {
      const given = { timeout_s, origin, due_ms };
      const place = { holder: '', name: '', lease_ms: 0, attempts: 0, recoveries: 0, undealt: false, given };
      const ready = due_ms <= this.now_ms;
      batch.tasks.push({ byte: 'q', timeout_s, due_ms: ready ? this.now_ms : due_ms, ready, payload: payloads[i] ?? '', origin, ...place });
    }
    if (batch.status === 'tray') batch.deadline_ms = null;
  }

  claim(holder: string, partition: number, claim: ModelClaim, reply: ClaimReply): void {
    const { call_no, budget, rooms } = claim;
    const state = this.partition(partition);
    const before = state.claims.get(holder);
    if (before?.call_no === call_no) {
      const still = before.tasks.filter((task) => this.#flying(holder, task.flight.name, task.flight.core, task.index) !== null);
      assert.deepEqual(placesOf(reply.tasks), placesOf(still), 'a repeated claim brings what is in flight of the first');
      return;
    }
    assert.ok(reply.tasks.length <= budget + 64, `${reply.tasks.length} claimed with a budget of ${budget}`);
    for (const claimed of reply.tasks) this.#start(holder, claimed);
    for (const [origin, room] of rooms) {
      const taken = reply.tasks.filter(({ flight }) => flight.name.endsWith(`:${origin}`)).length;
      assert.ok(taken <= room, `${origin}: room for ${room}, and ${taken} were claimed`);
    }
    for (const origin of reply.parked)
      assert.ok(
        rooms.some(([name]) => name === origin),
        `${origin} is parked and has room`,
      );
    for (const origin of claim.unpark.includes('*') ? [...state.parked] : claim.unpark) state.parked.delete(origin);
    for (const origin of reply.parked) state.parked.add(origin);
    if (reply.tasks.length > 0) {
      state.claims.set(holder, { call_no, tasks: [...reply.tasks] });
      state.marks.set(holder, this.now_ms);
    }
    if (reply.more) return;
    for (const batch of this.#live(partition)) {
      const left = batch.tasks.findIndex(({ byte, ready, origin }) => ready && (byte === 'q' || byte === 'r') && !state.parked.has(origin));
      assert.equal(left, -1, `${batch.core}: the claim says that no more is ready, and task ${left} is`);
    }
  }

  #start(holder: string, claimed: Claimed): void {
    const { flight, index, attempt, recoveries, payload, single, account_id } = claimed;
    const batch = this.#of(flight.core);
    const task = batch.tasks[index];
    const say = `${flight.core},${index}`;
    assert.ok(task !== undefined && LIVE.has(batch.status), `${say} is claimed of a batch that is ${batch.status}`);
    assert.ok(task.byte === 'q' || task.byte === 'r', `${say} is claimed while it is ${task.byte}`);
    assert.ok((task.ready || task.undealt) && task.due_ms <= this.now_ms, `${say} is claimed before its time`);
    assert.deepEqual(
      [attempt, recoveries, payload?.toString(), single, account_id, claimed.due_ms],
      [task.attempts + 1, task.recoveries, task.payload, batch.status === 'tray', batch.account, task.due_ms],
      `${say} as it should come`,
    );
    const lease_ms = this.now_ms + task.timeout_s * 1000 + SETTINGS.grace_ms;
    Object.assign(task, { byte: task.byte === 'q' ? 'p' : 'P', attempts: attempt, holder, name: flight.name, lease_ms, undealt: false });
    if (batch.status === 'pending') batch.status = 'processing';
  }

  /** Counts what is in flight under its name for this holder. */
  settle(holder: string, settlements: readonly Settlement[]): void {
    const touched = new Set<ModelBatch>();
    for (const { flight, index, verdict, delay_ms } of settlements) {
      const task = this.#flying(holder, flight.name, flight.core, index);
      if (task === null) continue;
      const batch = this.#of(flight.core);
      touched.add(batch);
      if ((verdict === 'r' || verdict === 'b') && this.live(batch)) {
        if (verdict === 'b') task.attempts -= 1;
        this.#wait(task, this.now_ms + delay_ms);
      } else if (verdict === 'b') {
        task.byte = 'r';
      } else {
        task.byte = verdict === 'c' ? 'c' : 'f';
      }
    }
    for (const batch of touched) this.#end(batch);
  }

  #wait(task: ModelTask, due_ms: number): void {
    Object.assign(task, { byte: 'r', due_ms, ready: due_ms <= this.now_ms });
  }

  cancel(core: string): void {
    const batch = this.#of(core);
    if (!this.live(batch)) return;
    this.#stop(batch, 'cancelled');
  }

  release(core: string): void {
    const batch = this.#of(core);
    if (!batch.hold) return;
    batch.hold = false;
    this.#end(batch);
  }

  cancelTask(core: string, index: number): string {
    const batch = this.batches.get(core);
    const task = batch?.tasks[index];
    if (batch === undefined || task === undefined) return 'missing';
    if (task.byte === 'x') return 'cancelled';
    if (task.byte !== 'q' && task.byte !== 'r') return 'state';
    if (!this.live(batch)) return batch.status === 'cancelled' ? 'cancelled' : 'state';
    task.byte = 'x';
    this.#end(batch);
    return 'cancelled';
  }

  retryTask(core: string, index: number, expiration_ms: number): string {
    const batch = this.batches.get(core);
    const task = batch?.tasks[index];
    if (batch === undefined || task === undefined) return 'missing';
    const round = !this.live(batch);
    if (round && (!batch.finished || (batch.status !== 'failed' && batch.status !== 'expired'))) return 'state';
    if (round && batch.status === 'expired') {
      for (const one of batch.tasks) if (one.byte === 'q' || one.byte === 'r') one.byte = 'e';
    }
    if (task.byte !== 'f' && task.byte !== 'e') return 'state';
    if (round) this.#begin(batch, expiration_ms);
    Object.assign(task, { attempts: 0, recoveries: 0, timeout_s: 30, origin: 'o1' });
    this.#wait(task, this.now_ms);
    if (batch.status === 'tray') batch.deadline_ms = null;
    return 'queued';
  }

  retryBatch(core: string, expiration_ms: number): string {
    const batch = this.batches.get(core);
    if (batch === undefined || batch.status === 'tray') return 'missing';
    if (batch.status !== 'failed' && batch.status !== 'expired') return 'state';
    if (!batch.finished) return 'running';
    if (this.counts(batch).f === 0) return 'nothing';
    for (const task of batch.tasks) {
      if (task.byte === 'c' || task.byte === 'x') continue;
      const { timeout_s, origin, due_ms } = task.given;
      Object.assign(task, { attempts: 0, recoveries: 0, timeout_s, origin, undealt: true });
      this.#wait(task, Math.max(this.now_ms, due_ms));
    }
    this.#begin(batch, expiration_ms);
    return 'retried';
  }

  #begin(batch: ModelBatch, expiration_ms: number): void {
    batch.status = batch.tasks.some(({ byte }) => byte === 'c') ? 'processing' : 'pending';
    batch.expires_ms = Math.max(this.now_ms, batch.expires_ms - expiration_ms) + expiration_ms;
    Object.assign(batch, { finished: false, swept: null, deadline_ms: batch.expires_ms });
  }

  delete(core: string): string {
    const batch = this.batches.get(core);
    if (batch === undefined || batch.status === 'tray') return 'missing';
    if (this.live(batch) || !batch.finished) return 'state';
    this.batches.delete(core);
    return 'deleted';
  }

  /** `before`: what the partition remembered of earlier ticks; an idle one may leave nothing. `again_ms`: when it lets tasks at their last chance start, by core and index. */
  tick(holder: string, partition: number, before: { last_ms: number; thaw_ms: number }, again_ms: ReadonlyMap<string, number>): void {
    this.#again_ms = again_ms;
    const state = this.partition(partition);
    const now = this.now_ms;
    const gap_ms = now - before.last_ms;
    const shift_ms = gap_ms > SETTINGS.gap_ms ? gap_ms : 0;
    const thawed = now - (shift_ms === 0 ? before.thaw_ms : now) >= SETTINGS.silence_ms;
    const ended = [...this.batches.values()].filter(
      (batch) => batch.partition === partition && batch.deadline_ms !== null && batch.deadline_ms <= now,
    );
    const due = this.#live(partition).flatMap(({ tasks }) => tasks.filter((task) => !task.ready && task.due_ms <= now));
    const mine = this.held(holder, partition).length > 0;
    this.#reap(holder, partition, shift_ms, thawed);
    if (mine) {
      state.marks.set(holder, now);
    } else {
      state.marks.delete(holder);
      state.claims.delete(holder);
    }
    for (const task of due) task.ready = true;
    for (const batch of ended) {
      if (batch.status === 'pending' || batch.status === 'processing') this.#stop(batch, 'expired');
      else if (batch.deadline_ms !== null && batch.deadline_ms <= now) this.batches.delete(batch.core);
    }
  }

  #reap(caller: string, partition: number, shift_ms: number, thawed: boolean): void {
    const state = this.partition(partition);
    for (const [holder, seen_ms] of state.marks) {
      const quiet_ms = this.now_ms - Math.floor(0.3 * SETTINGS.silence_ms);
      const moved_ms = shift_ms === 0 ? seen_ms : Math.min(this.now_ms, Math.max(seen_ms, Math.min(seen_ms + shift_ms, quiet_ms)));
      const silent = holder !== caller && this.now_ms - moved_ms > SETTINGS.silence_ms;
      for (const { batch, task } of this.held(holder, partition)) {
        if (silent || (thawed && task.lease_ms <= this.now_ms)) this.#recover(batch, task);
      }
      if (silent) {
        state.marks.delete(holder);
        state.claims.delete(holder);
      } else if (holder !== caller) {
        state.marks.set(holder, moved_ms);
      }
    }
  }

  #recover(batch: ModelBatch, task: ModelTask): void {
    task.recoveries += 1;
    if (!this.live(batch) || task.recoveries >= RECOVERIES_MAX) task.byte = 'f';
    else this.#wait(task, this.#again_ms.get(`${batch.core},${batch.tasks.indexOf(task)}`) ?? this.now_ms);
    this.#end(batch);
  }

  /** What this holder has in flight. */
  held(holder: string, partition: number): { batch: ModelBatch; index: number; task: ModelTask }[] {
    return [...this.batches.values()]
      .filter((batch) => batch.partition === partition)
      .flatMap((batch) => batch.tasks.map((task, index) => ({ batch, index, task })))
      .filter(({ task }) => (task.byte === 'p' || task.byte === 'P') && task.holder === holder);
  }

  #flying(holder: string, name: string, core: string, index: number): ModelTask | null {
    const task = this.batches.get(core)?.tasks[index];
    const flies = task !== undefined && (task.byte === 'p' || task.byte === 'P') && task.holder === holder && task.name === name;
    return flies ? task : null;
  }

  #stop(batch: ModelBatch, status: string): void {
    batch.status = status;
    batch.swept = status === 'expired' ? 'f' : 'x';
    batch.deadline_ms = null;
    this.#end(batch);
  }

  #end(batch: ModelBatch): void {
    const counts = this.counts(batch);
    if (counts.n > counts.c + counts.f + counts.x) return;
    if (batch.status === 'tray') {
      batch.deadline_ms = Math.max(this.now_ms, batch.created_ms + 1000) + SETTINGS.tray_keep_ms;
      return;
    }
    if (batch.finished || (batch.hold && this.live(batch))) return;
    if (this.live(batch)) batch.status = counts.f > 0 ? 'failed' : counts.c > 0 ? 'completed' : 'cancelled';
    batch.finished = true;
    batch.deadline_ms = this.now_ms + SETTINGS.keep_ms;
  }

  counts(batch: ModelBatch): { n: number; c: number; f: number; x: number; r: number } {
    const counts = { n: batch.tasks.length, c: 0, f: 0, x: 0, r: 0 };
    for (const { byte } of batch.tasks) {
      if (byte === 'p' || byte === 'P') counts.r += 1;
      else if (byte === 'c' || byte === 'f' || byte === 'x') counts[byte] += 1;
      else if (byte === 'e') counts.f += 1;
      else if (batch.swept !== null) counts[batch.swept] += 1;
    }
    return counts;
  }

  /** What Redis holds of a partition must be what is here. */
  compare(partition: number, found: ReadonlyMap<string, CheckedBatch>): void {
    const mine = [...this.batches.values()].filter((batch) => batch.partition === partition);
    const shown = [...found.values()].filter(({ status }) => status !== 'deleted').map(({ core }) => core);
    assert.deepEqual(shown.sort(), mine.map(({ core }) => core).sort(), 'the batches that exist');
    for (const batch of mine) {
      const real = found.get(batch.core);
      const states = batch.tasks.map(({ byte }) => byte).join('');
      assert.deepEqual(
        { status: real?.status, n: real?.n, c: real?.c, f: real?.f, x: real?.x, r: real?.r, states: dealt(real) },
        { status: batch.status, ...this.counts(batch), states },
        `batch ${batch.core}`,
      );
    }
  }

  #live(partition: number): ModelBatch[] {
    return [...this.batches.values()].filter((batch) => batch.partition === partition && this.live(batch));
  }

  #of(core: string): ModelBatch {
    const batch = this.batches.get(core);
    assert.ok(batch, `batch ${core} is gone`);
    return batch;
  }
}

function placesOf(tasks: readonly Claimed[]): string[] {
  return tasks.map(({ flight, index }) => `${flight.name}#${index}`).sort();
}

/** State bytes as they will be when the round has dealt out everything. */
function dealt(batch: CheckedBatch | undefined): string {
  const [from, to] = batch?.undealt ?? [0, -1];
  return (batch?.states ?? '').replace(/[fqre]/g, (byte, i: number) => (i >= from && i <= to ? 'r' : byte));
}
