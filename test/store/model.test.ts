// Random sequences of everything that can happen to batches, against a reference of the same (model.ts): after each step
// every status, counter and state byte is compared, and the partition's invariants are checked.
//
// A failure prints a seed and a path; MODEL_SEED and MODEL_PATH run it again, TEST_RUNS=10 makes ten times as many.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import fc from 'fast-check';
import { newOperation } from '../../src/store/batches.ts';
import { keys } from '../../src/store/keys.ts';
import type { Claimed, Settlement, Verdict } from '../../src/store/partition.ts';
import { type CheckedBatch, checkPartition } from '../helpers/check-partition.ts';
import { reconciled } from '../helpers/reconciled.ts';
import { startRig, type TaskSpec, tasksOf } from '../helpers/rig.ts';
import { runs } from '../helpers/runs.ts';
import { Model, type ModelBatch, RECOVERIES_MAX } from './model.ts';

const RUNS = runs(100);
const COMMANDS_MAX = 60;
const ACCOUNTS = ['acme', 'rival'];
const HOLDERS = ['h1', 'h2', 'h3'];
const PARTITIONS = 2;
const ROUND_MS = 30_000;
/** Enough origins for a batch of 70 tasks to be queued by its maps. */
const ORIGINS = ['o1', 'o2', 'o3'];

const pick = fc.nat({ max: 1_000_000 });
const partition = fc.nat({ max: PARTITIONS - 1 });
const account = fc.constantFrom(...ACCOUNTS);
const holder = fc.constantFrom(...HOLDERS);
const spec: fc.Arbitrary<TaskSpec> = fc.record({
  origin: fc.constantFrom(...ORIGINS),
  due_ms: fc.constantFrom(0, 0, 0, 0, 0, 0, 500, 5000),
  timeout_s: fc.constantFrom(1, 30, 30, 600),
});
/** Mostly few, so that batches end. */
const specs = fc.oneof(
  { weight: 3, arbitrary: fc.array(spec, { minLength: 1, maxLength: 3 }) },
  { weight: 1, arbitrary: fc.array(spec, { minLength: 1, maxLength: 40 }) },
);
/** More runs than a commit queues. */
const many = fc.constant(Array.from({ length: 70 }, (_, i) => ({ origin: ORIGINS[i % 3] ?? '', due_ms: 0, timeout_s: 30 })));

/** Mostly every origin has room. */
const rooms = fc.oneof(
  { weight: 4, arbitrary: fc.constant<[string, number][]>([]) },
  {
    weight: 1,
    arbitrary: fc.uniqueArray(fc.tuple(fc.constantFrom(...ORIGINS), fc.constantFrom(0, 0, 1, 5)), {
      maxLength: 3,
      selector: ([origin]) => origin,
    }),
  },
);
const unpark = fc.constantFrom<string[]>([], ['o1'], ['o2', 'o3'], ['*']);

const command = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('create' as const),
      partition,
      account,
      hold: fc.boolean(),
      life: pick,
      specs: fc.oneof({ weight: 9, arbitrary: specs }, { weight: 1, arbitrary: many }),
      again: fc.boolean(),
    }),
  },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('add' as const), pick, specs, again: fc.boolean() }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('single' as const),
      partition,
      account,
      specs: specs.map((list) => list.slice(0, 1)),
      again: fc.boolean(),
    }),
  },
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant('claim' as const),
      partition,
      holder,
      budget: fc.constantFrom(1, 5, 20, 128),
      again: fc.boolean(),
      rooms,
      unpark,
    }),
  },
  {
    weight: 12,
    arbitrary: fc.record({
      kind: fc.constant('settle' as const),
      partition,
      holder,
      verdicts: fc.array(fc.constantFrom<Verdict | '-'>('c', 'c', 'c', 'f', 'r', 'b', '-'), { minLength: 1, maxLength: 12 }),
      delay_ms: fc.constantFrom(0, 0, 300, 4000),
      again: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('stale' as const),
      partition,
      holder,
      pick,
      verdict: fc.constantFrom<Verdict>('c', 'f', 'r', 'b'),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('finish' as const),
      partition,
      holder,
      verdict: fc.constantFrom<Verdict>('c', 'c', 'f', 'r', 'b'),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('lose' as const), partition, holder }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('cancel' as const), pick }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('release' as const), pick }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('cancelTask' as const), pick, index: pick }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('retryTask' as const), pick, index: pick }) },
  { weight: 5, arbitrary: fc.record({ kind: fc.constant('retryBatch' as const), pick, again: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('delete' as const), pick }) },
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('tick' as const), partition, holder }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('reconcile' as const) }) },
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: fc.constantFrom(1, 500, 2000, 2900, 4000, 9000, 40_000, 120_000) }),
  },
);
type Command = typeof command extends fc.Arbitrary<infer C> ? C : never;

const rig = await startRig();
rig.checks = false;
after(() => rig.redis.disconnect());

/** One sequence: the real thing and the reference side by side. */
class Run {
  readonly model = new Model(rig.now_ms);
  readonly #claimed: { holder: string; partition: number; task: Claimed }[] = [];
  readonly #trays = new Map<string, string>();
  readonly #seen = new Map<string, CheckedBatch>();
  #call_no = 0;

  async step(step: Command): Promise<void> {
    const began_ms = rig.now_ms;
    await this.#do(step);
    for (let p = 0; p < PARTITIONS; p++) {
      const found = await checkPartition(rig.redis, p);
      this.model.compare(p, found);
      for (const [core, batch] of found) if (batch.status !== 'deleted') this.#checkUpdated(core, batch, began_ms);
    }
  }

  /** `updated_at` moves with every change of status or stats. */
  #checkUpdated(core: string, batch: CheckedBatch, began_ms: number): void {
    const stats = ({ status, n, c, f, x }: CheckedBatch): string => JSON.stringify([status, n, c, f, x]);
    const before = this.#seen.get(core);
    if (before === undefined || stats(before) !== stats(batch)) assert.ok(batch.updated_ms >= began_ms, `${core} was updated now`);
    this.#seen.set(core, batch);
  }

  async #do(step: Command): Promise<void> {
    switch (step.kind) {
      case 'create':
        return this.#create(step);
      case 'add':
        return this.#add(step);
      case 'single':
        return this.#single(step);
      case 'claim':
        return this.#claim(step);
      case 'settle':
        return this.#settle(step);
      case 'stale':
        return this.#stale(step);
      case 'tick':
        return this.#tick(step);
      case 'pass':
        return this.#pass(step.ms);
      case 'finish':
        await this.#claim({ ...step, kind: 'claim', budget: 128, again: false, rooms: [], unpark: ['*'] });
        return this.#settle({ ...step, kind: 'settle', verdicts: [step.verdict], delay_ms: 0, again: false });
      case 'lose':
        return this.#lose(step);
      case 'reconcile':
        return assert.deepEqual(await reconciled(rig), {}, 'nothing is to be set right');
      case 'retryBatch':
        return this.#retryBatch(step);
      case 'delete':
        return this.#delete(step);
      default:
        return this.#change(step);
    }
  }

  async #tick({ holder: h, partition: p }: Extract<Command, { kind: 'tick' }>): Promise<void> {
    const [last, thaw] = await rig.redis.hmget(keys.partition(p), 'last', 'thaw');
    await rig.tick(h, { partition: p, recoveries_max: RECOVERIES_MAX });
    this.model.tick(h, p, { last_ms: Number(last ?? rig.now_ms), thaw_ms: Number(thaw ?? 0) }, await this.#suspects(p));
  }

  /** Tasks at their last chance come back one after another; which first, is nobody's business. */
  async #suspects(partition: number): Promise<Map<string, number>> {
    const waiting = await rig.redis.zrange(keys.delayed(partition), 0, '-1', 'WITHSCORES');
    const due_ms = new Map<string, number>();
    for (let i = 0; i < waiting.length; i += 2) {
      const [core, from, , , recoveries] = (waiting[i]?.split('|')[1] ?? '').split(',');
      if (Number(recoveries) === RECOVERIES_MAX - 1) due_ms.set(`${core},${from}`, Number(waiting[i + 1]));
    }
    return due_ms;
  }

  #pass(ms: number): void {
    rig.pass(ms);
    this.model.now_ms = rig.now_ms;
  }

  /** One holder calls as it should, the others are silent for too long. */
  async #lose({ holder: h, partition: p }: Extract<Command, { kind: 'lose' }>): Promise<void> {
    for (let times = 0; times < 5; times++) {
      this.#pass(2500);
      await this.#tick({ kind: 'tick', holder: h, partition: p });
    }
  }

  #specs(list: readonly TaskSpec[]): TaskSpec[] {
    return list.map((spec) => ({ ...spec, due_ms: spec.due_ms ? rig.now_ms + spec.due_ms : 0 }));
  }

  async #create(step: Extract<Command, { kind: 'create' }>): Promise<void> {
    const { partition: p, account: a, hold } = step;
    const core = rig.newCore(p);
    const tasks = this.#specs(step.specs);
    const expiration_ms = [1500, 30_000, 90_000, 3_600_000][step.life % 4] ?? 0;
    for (let times = 0; times < (step.again ? 2 : 1); times++) {
      await rig.create({ core, partition: p, account: a, hold, tasks, expiration_ms });
    }
    this.model.create({ core, account: a, partition: p, hold, expiration_ms });
    this.model.append(core, tasks, payloads(tasks, 'task'));
  }

  #pick(n: number, kind: (batch: ModelBatch) => boolean = () => true): ModelBatch | null {
    const list = [...this.model.batches.values()].filter(kind);
    return list[n % Math.max(1, list.length)] ?? null;
  }

  async #add(step: Extract<Command, { kind: 'add' }>): Promise<void> {
    const batch = this.#pick(step.pick, ({ status }) => status !== 'tray');
    if (batch === null) return;
    const tasks = this.#specs(step.specs);
    const operation = newOperation();
    const outcome = await rig.add(batch.core, tasks, { account: batch.account, operation });
    assert.equal(outcome.kind, this.model.live(batch) ? 'added' : 'state');
    if (outcome.kind !== 'added') return;
    assert.equal(outcome.first, batch.tasks.length);
    this.model.append(batch.core, tasks, payloads(tasks, 'added'));
    if (step.again) assert.deepEqual(await rig.add(batch.core, tasks, { account: batch.account, operation }), outcome);
  }

  async #single(step: Extract<Command, { kind: 'single' }>): Promise<void> {
    const { partition: p, account: a } = step;
    const tasks = this.#specs(step.specs);
    const operation = newOperation();
    const made = await rig.single(tasks, { partition: p, account: a, operation });
    const open = this.model.batches.get(this.#trays.get(`${p} ${a}`) ?? '');
    if (open !== undefined && rig.now_ms < open.created_ms + 1000) {
      assert.deepEqual([made.core, made.first], [open.core, open.tasks.length], 'into the open tray');
    } else {
      assert.ok(!this.model.batches.has(made.core) && made.first === 0, 'into a new tray');
      this.model.tray(made.core, a, p);
    }
    this.#trays.set(`${p} ${a}`, made.core);
    this.model.append(made.core, tasks, payloads(tasks, 'single'));
    if (step.again) assert.deepEqual(await rig.single(tasks, { partition: p, account: a, operation }), made);
  }

  async #claim(step: Extract<Command, { kind: 'claim' }>): Promise<void> {
    const { partition: p, holder: h, budget } = step;
    const before = this.model.partition(p).claims.get(h);
    const call_no = step.again && before !== undefined ? before.call_no : ++this.#call_no;
    const { rooms: limited, unpark: let_go } = step;
    const reply = await rig.claimed(h, budget, { call_no, partition: p, rooms: limited, unpark: let_go });
    this.model.claim(h, p, { call_no, budget, rooms: limited, unpark: let_go }, reply);
    for (const task of reply.tasks) this.#claimed.push({ holder: h, partition: p, task });
  }

  async #settle(step: Extract<Command, { kind: 'settle' }>): Promise<void> {
    const { partition: p, holder: h, verdicts, delay_ms } = step;
    const settlements: Settlement[] = [];
    for (const [k, { batch, index, task }] of this.model.held(h, p).entries()) {
      const verdict = verdicts[k % verdicts.length] ?? '-';
      if (verdict === '-') continue;
      const flight = { name: task.name, core: batch.core, base: 0, origin: 'o1', limit: null };
      settlements.push({ flight, index, verdict, delay_ms, result: verdict === 'b' ? '' : '[1,0,200,5]' });
    }
    for (let times = 0; times < (step.again ? 2 : 1); times++) await this.#send(h, p, settlements);
  }

  /** Something that was claimed once by this holder, whatever became of it. */
  async #stale(step: Extract<Command, { kind: 'stale' }>): Promise<void> {
    const { partition: p, holder: h, verdict } = step;
    const known = this.#claimed.filter((one) => one.holder === h && one.partition === p);
    const from = step.pick % Math.max(1, known.length);
    const tasks = new Map(known.slice(from, from + 3).map(({ task }) => [`${task.flight.name} ${task.index}`, task]));
    const settlements = [...tasks.values()].map(({ flight, index }) => ({ flight, index, verdict, delay_ms: 0, result: '' }));
    await this.#send(h, p, settlements);
  }

  /** Sends what is left again, as a pump does. */
  async #send(h: string, p: number, settlements: Settlement[]): Promise<void> {
    const { left } = await rig.settleAll(h, settlements, p);
    if (left.length > 0) assert.deepEqual((await rig.settleAll(h, left, p)).left, [], 'what is in flight is counted');
    this.model.settle(h, settlements);
  }

  async #change(step: Extract<Command, { kind: 'cancel' | 'release' | 'cancelTask' | 'retryTask' }>): Promise<void> {
    const batch = this.#pick(step.pick);
    if (batch === null) return;
    const { core, account: a, status, tasks } = batch;
    if (step.kind === 'cancel') {
      const { kind } = await rig.cancel(core, a);
      const expected = status === 'tray' ? 'missing' : this.model.live(batch) || status === 'cancelled' ? 'cancelled' : 'state';
      assert.equal(kind, expected);
      if (kind === 'cancelled') this.model.cancel(core);
    } else if (step.kind === 'release') {
      assert.equal((await rig.release(core, a)) !== null, status !== 'tray');
      if (status !== 'tray') this.model.release(core);
    } else {
      const index = step.index % (tasks.length + 1);
      const outcome =
        step.kind === 'cancelTask'
          ? await rig.cancelTask(core, index, a)
          : await rig.retryTask(core, index, a, 'o1', { expiration_ms: ROUND_MS });
      assert.equal(outcome, step.kind === 'cancelTask' ? this.model.cancelTask(core, index) : this.model.retryTask(core, index, ROUND_MS));
    }
  }

  async #retryBatch(step: Extract<Command, { kind: 'retryBatch' }>): Promise<void> {
    // One that can be retried, where there is one: most are finished otherwise, or not at all.
    const batch = this.#pick(step.pick, ({ status }) => status === 'failed' || status === 'expired') ?? this.#pick(step.pick);
    if (batch === null) return;
    const retry = { account_id: batch.account, operation: newOperation(), expiration_ms: ROUND_MS };
    const outcome = await rig.retryBatch(batch.core, retry);
    assert.equal(outcome.kind, this.model.retryBatch(batch.core, ROUND_MS));
    if (step.again && outcome.kind === 'retried') assert.deepEqual(await rig.retryBatch(batch.core, retry), outcome);
  }

  async #delete(step: Extract<Command, { kind: 'delete' }>): Promise<void> {
    const batch = this.#pick(step.pick);
    if (batch === null) return;
    assert.equal((await rig.delete(batch.core, batch.account)).kind, this.model.delete(batch.core));
  }
}

function payloads(specs: readonly TaskSpec[], label: string): string[] {
  return tasksOf(specs, label).map(({ payload }) => payload?.toString() ?? '');
}

test('Redis does what the reference does', async () => {
  const property = fc.asyncProperty(fc.array(command, { minLength: 1, maxLength: COMMANDS_MAX, size: 'max' }), async (steps) => {
    await rig.reset();
    const run = new Run();
    for (const step of steps) await run.step(step);
  });
  const { MODEL_SEED: seed, MODEL_PATH: path } = process.env;
  await fc.assert(property, {
    numRuns: RUNS,
    endOnFailure: false,
    ...(seed === undefined ? {} : { seed: Number(seed) }),
    ...(path === undefined ? {} : { path }),
  });
});
