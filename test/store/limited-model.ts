// A run of tasks of rate limiters through everything that can happen to them, on the real scripts: creates, any number of
// relayers and sweepers that stop, repeat, come late or lose replies between any two steps, grants, claims, all ends of
// attempts, processes that die, cancels, expiry, rounds, deletes, notifications, and failovers of any partition that forget
// up to 5 s of writes.
//
// After each step what a partition holds agrees with itself (check-partition.ts), and no message is applied twice or out of order.
// While nothing was forgotten, no more tasks have a slot than a limiter of kind concurrent has. At the end everything works
// again: then every task of every batch that its partition knows of ends, and nothing is left in any queue.
import assert from 'node:assert/strict';
import { newCore, partitionOf } from '../../src/base/id.ts';
import { keys } from '../../src/store/keys.ts';
import { createLimiter } from '../../src/store/limiters.ts';
import {
  type Answer,
  AWAY_AFTER_MS,
  acknowledge,
  askLanes,
  book,
  type Overdue,
  type Received,
  readOverdue,
  readSlices,
  receive,
  type Slice,
  sweep,
} from '../../src/store/outbox.ts';
import { type Claimed, readActive, type Settlement, turn } from '../../src/store/partition.ts';
import type { TaskLimit } from '../../src/store/records.ts';
import { partitionGrant } from '../../src/store/scripts.gen.ts';
import { ACCOUNT, type Rig, SETTINGS } from '../helpers/rig.ts';
import { Copies } from './limited-copies.ts';
import { whatIsLeft } from './limited-left.ts';
import { type Of, PARTITIONS, type Step } from './limited-steps.ts';

const SLOTS = 3;
const HANDS_MAX = 6;
const ROUNDS_MAX = 400;
const HOLDER = 'h1';
const NOTIFY = 'pwebhookor10;fwebhookor1;dwebhookor2;';

/** A slice in the hands of some relayer, and what the destination answered. */
interface Carried {
  source: number;
  read_at_ms: number;
  slice: Slice;
  received: Received | null;
}

interface Asking {
  source: number;
  asked_ms: number;
  references: Overdue[];
  answers: Answer[] | null;
}

export class Run {
  readonly #rig: Rig;
  readonly #carried: Carried[] = [];
  readonly #asking: Asking[] = [];
  readonly #copies: Copies;
  /** Of each partition: `<source> <sequence>` of every message that it has applied, in its order. */
  readonly #applied: string[][] = [];
  readonly #held: Claimed[][] = [];
  readonly #batches: { core: string; limit: TaskLimit | null }[] = [];
  #limits: TaskLimit[] = [];
  #forgotten = false;
  #call_no = 0;

  constructor(rig: Rig) {
    this.#rig = rig;
    this.#copies = new Copies(rig);
  }

  async begin(): Promise<void> {
    await this.#rig.reset(PARTITIONS);
    this.#rig.checks = false;
    this.#limits = [await this.#limiter(0, 'concurrent'), await this.#limiter(1, 'window'), await this.#limiter(2, 'concurrent')];
    for (let p = 0; p < PARTITIONS; p++) {
      this.#applied[p] = [];
      this.#held[p] = [];
      await this.#wrote(p);
    }
  }

  async #limiter(p: number, type: 'concurrent' | 'window'): Promise<TaskLimit> {
    const core = newCore(p, this.#rig.now_ms);
    const config = type === 'concurrent' ? { limit: SLOTS } : { limit: 5, interval: 1 };
    await createLimiter(this.#rig.redis, {
      core,
      account_id: ACCOUNT,
      name: `limit${p}`,
      type,
      config,
      description: null,
      timeouts: { queue_timeout: 604_800, validity_timeout: 604_800 },
      cooldown: 'task',
    });
    return { name: `limit${p}`, lane: core, kind: type === 'window' ? 'w' : 'c', cost: 1, valid_ms: 0 };
  }

  async step(one: Step): Promise<void> {
    await this.#take(one);
    if (!this.#forgotten) await this.#checkSlots();
  }

  /** Everything works again for long enough: all tasks end, and nothing stays. */
  async end(): Promise<void> {
    this.#carried.length = 0;
    this.#asking.length = 0;
    for (let round = 0; round < ROUNDS_MAX; round++) {
      for (let p = 0; p < PARTITIONS; p++) {
        await this.#relay(p);
        await this.#grant({ kind: 'grant', partition: p, max: 500 });
        await this.#relay(p);
        await this.#claim({ kind: 'claim', partition: p, room: 100 });
        await this.#settle({ kind: 'settle', partition: p, verdicts: ['c'] });
        await this.#audit(p);
        await this.#tick(p);
        await this.#sweep(p);
      }
      this.#pass(round % 4 === 3 ? 60_000 : 300);
      if (round % 4 === 3 && (await whatIsLeft(this.#rig)).length === 0) return;
    }
    assert.fail(`something stays: ${JSON.stringify(await whatIsLeft(this.#rig), null, 1)}`);
  }

  async #take(one: Step): Promise<void> {
    switch (one.kind) {
      case 'create':
        return this.#create(one);
      case 'slice':
        return this.#slice(one);
      case 'receive':
        return this.#receive(one);
      case 'ack':
        return this.#ack(one);
      case 'crash':
        this.#carried.splice(one.pick % Math.max(1, this.#carried.length), 1);
        return;
      case 'relay':
        return this.#relay(one.partition);
      case 'grant':
        return this.#grant(one);
      case 'claim':
        return this.#claim(one);
      case 'settle':
        return this.#settle(one);
      case 'tick':
        return this.#tick(one.partition);
      case 'cancel':
        return this.#cancel(one.pick);
      case 'cancelTask':
        return this.#cancelTask(one.pick);
      case 'retry':
        return this.#retry(one.pick);
      case 'retryTask':
        return this.#retryTask(one.pick);
      case 'delete':
        return this.#delete(one.pick);
      case 'reap':
        return this.#reap(one.partition);
      case 'overdue':
        return this.#overdue(one.partition);
      case 'ask':
        return this.#ask(one.pick);
      case 'book':
        return this.#book(one.pick);
      case 'sweep':
        return this.#sweep(one.partition);
      case 'failover':
        return this.#failover(one);
      case 'pass':
        return this.#pass(one.ms);
    }
  }

  async #create({ partition: p, lane, tasks, later, short, told }: Of<'create'>): Promise<void> {
    const limit = this.#limits[lane % this.#limits.length] ?? null;
    const spec = { limit, due_ms: later ? this.#rig.now_ms + 500 : 0 };
    const core = await this.#rig.create({
      partition: p,
      tasks: Array.from({ length: tasks }, () => spec),
      expiration_ms: short ? 20_000 : 1e11,
      notify: told ? NOTIFY : '',
    });
    this.#batches.push({ core, limit });
    await this.#wrote(p);
  }

  async #slice({ partition: source, max }: Of<'slice'>): Promise<void> {
    const { slices } = await readSlices(this.#rig.redis, source, { messages_max: max });
    for (const slice of slices) this.#carried.push({ source, slice, read_at_ms: this.#rig.now_ms, received: null });
    this.#carried.splice(0, this.#carried.length - HANDS_MAX);
  }

  /** Also of a slice that was received or acknowledged before, by this relayer or another. */
  async #receive({ pick: n, lost }: Of<'receive'>): Promise<void> {
    const carried = this.#carried[n % Math.max(1, this.#carried.length)];
    if (carried === undefined || this.#rig.now_ms - carried.read_at_ms > 10_000) return;
    const source_ms = carried.slice.source_ms + this.#rig.now_ms - carried.read_at_ms;
    const received = await this.#apply(carried.source, { ...carried.slice, source_ms });
    if (!lost) carried.received = received;
  }

  async #apply(source: number, slice: Slice): Promise<Received> {
    const received = await receive(this.#rig.redis, source, slice, SETTINGS);
    const { destination, messages } = slice;
    const applied = this.#applied[destination] ?? [];
    for (const message of messages.slice(received.done - received.applied, received.done)) {
      const sequence = Number(String(message).split(' ', 1)[0]);
      const last = applied.findLast((one) => one.startsWith(`${source} `));
      assert.ok(last === undefined || Number(last.split(' ')[1]) < sequence, `${message} is applied after ${last}`);
      applied.push(`${source} ${sequence}`);
    }
    await this.#wrote(destination);
    return received;
  }

  async #ack({ pick: n }: Of<'ack'>): Promise<void> {
    const ready = this.#carried.filter(({ received }) => received !== null);
    const carried = ready[n % Math.max(1, ready.length)];
    if (carried?.received == null) return;
    const { source, slice, received } = carried;
    await acknowledge(this.#rig.redis, source, { ...slice, messages: slice.messages.slice(0, received.done) }, received.mark);
    await this.#wrote(source);
  }

  /** What is handed over may bring up more. */
  async #relay(source: number): Promise<void> {
    for (;;) {
      const { slices } = await readSlices(this.#rig.redis, source);
      if (slices.length === 0) return;
      for (const slice of slices) {
        const { done, mark } = await this.#apply(source, slice);
        await acknowledge(this.#rig.redis, source, { ...slice, messages: slice.messages.slice(0, done) }, mark);
        await this.#wrote(source);
      }
    }
  }

  async #grant({ partition: p, max }: Of<'grant'>): Promise<void> {
    await partitionGrant.call(
      this.#rig.redis,
      { meta: keys.partition(p) },
      { lanes_max: 16, tasks_max: max, ahead_us: 30_000, now_us: this.#rig.now_ms * 1_000 },
    );
    await this.#wrote(p);
  }

  async #claim({ partition: p, room }: Of<'claim'>): Promise<void> {
    this.#call_no += 1;
    const claim = { call_no: this.#call_no, budget: 100, room, unpark: ['*'], rooms: [], notes: 10, suspects: 100 };
    const { claimed } = await turn(this.#rig.redis, p, { ...SETTINGS, holder: HOLDER }, { settlements: [], tick: false, claim });
    assert.ok(claimed !== null && !(claimed instanceof Error), String(claimed));
    this.#held[p]?.push(...claimed.tasks);
    await this.#wrote(p);
  }

  async #settle({ partition: p, verdicts }: Of<'settle'>): Promise<void> {
    const held = this.#held[p]?.splice(0) ?? [];
    const settlements = held.map(({ flight, index }, i): Settlement => {
      const one = verdicts[i % verdicts.length] ?? 'c';
      const cool_ms = one === 'k' ? { cool_ms: 300 } : {};
      return { flight, index, verdict: one, delay_ms: one === 'r' ? 200 : 0, result: '', ...cool_ms };
    });
    await this.#send(p, settlements);
  }

  /** As many times as what is left says. */
  async #send(p: number, settlements: readonly Settlement[]): Promise<void> {
    let left = settlements;
    while (left.length > 0) {
      const { settled } = await turn(this.#rig.redis, p, { ...SETTINGS, holder: HOLDER }, { settlements: left, tick: false, claim: null });
      assert.ok(settled !== null && !(settled instanceof Error), String(settled));
      left = settled.left;
      await this.#wrote(p);
    }
  }

  /** What Redis has in flight and nobody runs: a failover has brought it back. */
  async #audit(p: number): Promise<void> {
    const active = await readActive(this.#rig.redis, p, HOLDER);
    const lost = active.flatMap(({ flight, from, to }) =>
      Array.from({ length: to - from + 1 }, (_, k): Settlement => ({ flight, index: from + k, verdict: 'b', delay_ms: 0, result: '' })),
    );
    await this.#send(p, lost);
  }

  async #tick(p: number): Promise<void> {
    // Nobody is dead here: the clock jumps, and holders with it.
    const settings = { ...SETTINGS, holder: HOLDER, silence_ms: 1e12, gap_ms: 3_000 };
    const { tick } = await turn(this.#rig.redis, p, settings, { settlements: [], tick: true, claim: null });
    assert.ok(tick !== null && !(tick instanceof Error), String(tick));
    await this.#wrote(p);
  }

  /** Nobody has heard of the one who runs tasks for a while: they are recovered, and it has stopped them by then. */
  async #reap(p: number): Promise<void> {
    this.#pass(1);
    this.#held[p]?.splice(0);
    const settings = { ...SETTINGS, holder: 'h9', silence_ms: 0, gap_ms: 1e12 };
    const { tick } = await turn(this.#rig.redis, p, settings, { settlements: [], tick: true, claim: null });
    assert.ok(tick !== null && !(tick instanceof Error), String(tick));
    await this.#wrote(p);
  }

  /** Does something to one of the batches. */
  async #change(n: number, change: (core: string, limit: TaskLimit | null) => Promise<unknown>): Promise<void> {
    const batch = this.#batches[n % Math.max(1, this.#batches.length)];
    if (batch === undefined) return;
    await change(batch.core, batch.limit);
    await this.#wrote(partitionOf(batch.core));
  }

  #cancel(n: number): Promise<void> {
    return this.#change(n, (core) => this.#rig.cancel(core));
  }

  #cancelTask(n: number): Promise<void> {
    return this.#change(n, (core, limit) => this.#rig.cancelTask(core, n % 3, ACCOUNT, limit?.name));
  }

  #retry(n: number): Promise<void> {
    return this.#change(n, (core) => this.#rig.retryBatch(core, { expiration_ms: 1e11 }));
  }

  #retryTask(n: number): Promise<void> {
    return this.#change(n, (core, limiter) => this.#rig.retryTask(core, n % 3, ACCOUNT, 'o1', { limiter, expiration_ms: 1e11 }));
  }

  #delete(n: number): Promise<void> {
    return this.#change(n, (core) => this.#rig.delete(core));
  }

  async #overdue(source: number): Promise<void> {
    const { asked_ms, references } = await readOverdue(this.#rig.redis, source, AWAY_AFTER_MS);
    await this.#wrote(source);
    for (let p = 0; p < PARTITIONS; p++) {
      const group = references.filter(({ destination }) => destination === p);
      if (group.length > 0) this.#asking.push({ source, asked_ms, references: group, answers: null });
    }
    this.#asking.splice(0, this.#asking.length - HANDS_MAX);
  }

  async #ask(n: number): Promise<void> {
    const asking = this.#asking.at(-1 - (n % Math.max(1, this.#asking.length)));
    const destination = asking?.references[0]?.destination;
    if (asking === undefined || destination === undefined) return;
    asking.answers = await askLanes(this.#rig.redis, destination, asking.references);
  }

  async #book(n: number): Promise<void> {
    const ready = this.#asking.filter(({ answers }) => answers !== null);
    const asking = ready.at(-1 - (n % Math.max(1, ready.length)));
    if (asking?.answers == null) return;
    await book(this.#rig.redis, asking.source, asking.answers, asking.asked_ms);
    await this.#wrote(asking.source);
  }

  async #sweep(source: number): Promise<void> {
    const { failed } = await sweep(this.#rig.redis, source);
    assert.deepEqual(failed, []);
    await this.#wrote(source);
  }

  async #failover({ partition: p, back }: Of<'failover'>): Promise<void> {
    const applied = await this.#copies.restore(p, back);
    if (applied === null) return;
    this.#applied[p] = applied;
    this.#forgotten = true;
    this.#pass(1_000);
  }

  #pass(ms: number): void {
    this.#rig.pass(ms);
  }

  async #wrote(p: number): Promise<void> {
    this.#rig.checks = true;
    await this.#rig.check(p);
    this.#rig.checks = false;
    await this.#copies.add(p, this.#applied[p] ?? []);
  }

  /** Tasks in flight that take a slot are no more than there are. */
  async #checkSlots(): Promise<void> {
    const counts = new Map<string, number>();
    for (let p = 0; p < PARTITIONS; p++) {
      for (const { flight, index, of } of this.#held[p] ?? []) {
        const { limit } = flight;
        if (of !== null) continue;
        assert.ok(limit !== null, `${flight.name},${index} has a limiter`);
        if (limit.kind === 'c') counts.set(limit.lane, (counts.get(limit.lane) ?? 0) + 1);
      }
    }
    for (const [lane, count] of counts) assert.ok(count <= SLOTS, `${count} tasks of ${lane} run`);
  }
}
