// Random outcomes in random orders, and everything else that can happen to a batch, against a plain model of what it has to
// tell: after each step its notifications are exactly those of the model, in order, with the same stats.
//
// A failure prints a seed and a path; NOTES_SEED and NOTES_PATH run it again, TEST_RUNS=10 makes ten times as many.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import fc from 'fast-check';
import { newOperation } from '../../src/store/batches.ts';
import { keys } from '../../src/store/keys.ts';
import { decodeNote, encodeTargets, type Note, type NoteTarget, notesCore } from '../../src/store/notes.ts';
import type { Claimed, Verdict } from '../../src/store/partition.ts';
import { decodePage } from '../../src/store/records.ts';
import { reconciled } from '../helpers/reconciled.ts';
import { ACCOUNT, startRig } from '../helpers/rig.ts';
import { runs } from '../helpers/runs.ts';

const RUNS = runs(120);
const EXPIRATION_MS = 60_000;
const EVENTS = ['on_progress', 'on_finish', 'on_success', 'on_death', 'on_complete'] as const;
type EventName = (typeof EVENTS)[number];

const index = fc.nat({ max: 30 });
const verdicts = fc.array(fc.constantFrom<Verdict>('c', 'c', 'c', 'f', 'r', 'b'), { minLength: 1, maxLength: 6 });
const command = fc.oneof(
  { weight: 8, arbitrary: fc.record({ kind: fc.constant('claim' as const), budget: fc.constantFrom(1, 3, 20) }) },
  { weight: 10, arbitrary: fc.record({ kind: fc.constant('settle' as const), verdicts, order: fc.array(fc.nat(), { maxLength: 8 }) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant('send' as const), verdicts }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('add' as const), tasks: fc.integer({ min: 1, max: 4 }) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('cancelTask' as const), index }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('retryTask' as const), index }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('cancel' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('expire' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('release' as const) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('lose' as const) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('round' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('reconcile' as const) }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('pass' as const), ms: fc.constantFrom(1, 200, 700) }) },
);
type Command = typeof command extends fc.Arbitrary<infer C> ? C : never;

const setup = fc.record({
  tasks: fc.integer({ min: 1, max: 20 }),
  hold: fc.boolean(),
  /** Of on_progress. */
  min_interval_ms: fc.constantFrom(0, 0, 500),
  events: fc.oneof(fc.constant<EventName[]>([...EVENTS]), fc.subarray<EventName>([...EVENTS], { minLength: 1 })),
  origins: fc.constantFrom(['webhookor1'], ['webhookor1', 'webhookor2']),
  steps: fc.array(command, { minLength: 1, maxLength: 40, size: 'max' }),
});
type Setup = typeof setup extends fc.Arbitrary<infer S> ? S : never;

const rig = await startRig();
after(() => rig.redis.disconnect());

type Told = Omit<Note, 'failure'> & { failures: readonly number[] | null };

/** What a batch is, as far as it tells of it. */
class Model {
  readonly told: Told[] = [];
  /** w waits, p runs, c, f, x. */
  tasks: string[];
  status = 'pending';
  finished_ms: number | null = null;
  round = 1;
  died = 0;
  hold: boolean;
  readonly sent = new Set<number>();
  /** When a merged on_progress may be sent, by its place. */
  readonly due_ms = new Map<number, number>();
  #last = -1;
  #last_ms = 0;
  readonly #setup: Setup;

  constructor(given: Setup) {
    this.#setup = given;
    this.tasks = Array.from({ length: given.tasks }, () => 'w');
    this.hold = given.hold;
  }

  get live(): boolean {
    return this.status === 'pending' || this.status === 'processing';
  }

  #stats(): Pick<Note, 'total' | 'completed' | 'failed' | 'cancelled'> {
    const count = (byte: string): number => this.tasks.filter((one) => one === byte).length;
    return { total: this.tasks.length, completed: count('c'), failed: count('f'), cancelled: count('x') };
  }

  #tell(event: EventName, failures: readonly number[] | null = null): void {
    if (!this.#setup.events.includes(event)) return;
    const { status, finished_ms, round } = this;
    this.told.push({ event, status: status as Note['status'], ...this.#stats(), at_ms: rig.now_ms, finished_ms, round, failures });
  }

  progress(): void {
    if (!this.#setup.events.includes('on_progress')) return;
    const { min_interval_ms } = this.#setup;
    const last = this.told[this.#last];
    if (min_interval_ms > 0 && last !== undefined && !this.sent.has(this.#last)) {
      const { status, finished_ms, round } = this;
      Object.assign(last, { status, ...this.#stats(), at_ms: rig.now_ms, finished_ms, round });
      return;
    }
    this.#last_ms = min_interval_ms > 0 && last !== undefined ? Math.max(rig.now_ms, this.#last_ms + min_interval_ms) : rig.now_ms;
    this.#last = this.told.length;
    this.due_ms.set(this.#last, this.#last_ms);
    this.#tell('on_progress');
  }

  /** Tasks end in this order; with the last one the batch may. */
  finish(ends: readonly (readonly [index: number, byte: string])[], among: readonly number[] | null = null): void {
    for (const [k, [i, byte]] of ends.entries()) {
      this.tasks[i] = byte;
      const last = k === ends.length - 1 && this.#end();
      this.progress();
      if (byte === 'f') this.death(among ?? [i]);
      if (last) this.ended();
    }
  }

  death(failures: readonly number[]): void {
    if (this.died === this.round) return;
    this.died = this.round;
    this.#tell('on_death', failures);
  }

  #end(): boolean {
    const { total, completed, failed, cancelled } = this.#stats();
    if (completed + failed + cancelled < total || this.finished_ms !== null || (this.hold && this.live)) return false;
    if (this.live) this.status = failed > 0 ? 'failed' : completed > 0 ? 'completed' : 'cancelled';
    this.finished_ms = rig.now_ms;
    return true;
  }

  ended(): void {
    this.#tell('on_finish');
    if (this.status === 'completed' && this.tasks.every((byte) => byte === 'c')) this.#tell('on_success');
    this.#tell('on_complete');
  }

  stop(status: 'cancelled' | 'expired'): void {
    if (!this.live) return;
    this.status = status;
    const waiting = this.of('w');
    for (const i of waiting) this.tasks[i] = status === 'expired' ? 'f' : 'x';
    const over = this.#end();
    this.progress();
    if (status === 'expired' && waiting.length > 0) this.death(waiting);
    if (over) this.ended();
  }

  release(): void {
    if (!this.hold) return;
    this.hold = false;
    if (this.#end()) this.ended();
  }

  of(byte: string): number[] {
    return this.tasks.flatMap((one, i) => (one === byte ? [i] : []));
  }

  begin(): void {
    for (const i of this.of('f')) this.tasks[i] = 'w';
    this.round += 1;
    this.status = this.tasks.includes('c') ? 'processing' : 'pending';
    this.finished_ms = null;
  }
}

async function run(given: Setup): Promise<void> {
  await rig.reset(1);
  const model = new Model(given);
  const targets = given.events.map<NoteTarget>((event, k) => {
    const min_interval_ms = event === 'on_progress' ? given.min_interval_ms : 0;
    return { event, origin: given.origins[k % given.origins.length] ?? '', min_interval_ms };
  });
  const { tasks, hold } = given;
  const core = await rig.create({ tasks, hold, notify: encodeTargets(targets), expiration_ms: EXPIRATION_MS });
  const running = new Map<number, Claimed>();
  for (const step of given.steps) {
    await act(step, core, model, running);
    await same(core, model);
  }
}

async function act(step: Command, core: string, model: Model, running: Map<number, Claimed>): Promise<void> {
  switch (step.kind) {
    case 'claim':
      for (const task of await rig.claim('h1', step.budget, { notes: 0 })) {
        assert.equal(task.of, null);
        running.set(task.index, task);
        model.tasks[task.index] = 'p';
        if (model.status === 'pending') model.status = 'processing';
      }
      return;
    case 'settle':
      return settle(step, model, running);
    case 'send':
      return send(step.verdicts, model);
    case 'add':
      if ((await rig.add(core, step.tasks)).kind !== 'added') return;
      for (let k = 0; k < step.tasks; k++) model.tasks.push('w');
      return model.progress();
    case 'cancelTask':
      if ((await rig.cancelTask(core, step.index)) === 'cancelled' && model.live && model.tasks[step.index] === 'w')
        model.finish([[step.index, 'x']]);
      return;
    case 'retryTask': {
      const live = model.live;
      if ((await rig.retryTask(core, step.index, ACCOUNT, 'o1', { expiration_ms: EXPIRATION_MS })) !== 'queued') return;
      if (!live) {
        const failed = model.of('f').filter((i) => i !== step.index);
        model.begin();
        for (const i of failed) model.tasks[i] = 'f';
      }
      model.tasks[step.index] = 'w';
      return;
    }
    case 'cancel':
      await rig.cancel(core);
      return model.stop('cancelled');
    case 'expire':
      // Somebody calls all the while, or it would be time that nobody is to blame for; and what runs is not lost by it.
      if (!model.live || running.size > 0) return;
      rig.pass(EXPIRATION_MS);
      await rig.tick('h1');
      if (model.live) model.stop('expired');
      return;
    case 'release':
      await rig.release(core);
      return model.release();
    case 'lose':
      return lose(model, running);
    case 'round': {
      const retried = await rig.retryBatch(core, { account_id: ACCOUNT, operation: newOperation(), expiration_ms: EXPIRATION_MS });
      if (retried.kind === 'retried') model.begin();
      return;
    }
    case 'reconcile':
      return assert.deepEqual(await reconciled(rig), {}, 'nothing is to be set right');
    case 'pass':
      rig.pass(step.ms);
      await rig.tick('h1');
  }
}

async function settle(step: Extract<Command, { kind: 'settle' }>, model: Model, running: Map<number, Claimed>): Promise<void> {
  const tasks = [...running.values()];
  for (const [k, at] of step.order.entries()) tasks.push(...tasks.splice(at % Math.max(1, tasks.length), k));
  const settlements = tasks.map((task, k) => {
    const verdict = step.verdicts[k % step.verdicts.length] ?? 'c';
    return { flight: task.flight, index: task.index, verdict, delay_ms: 0, result: verdict === 'b' ? '' : '[1,0,200,5]' };
  });
  if (settlements.length === 0) return;
  await rig.settleAll('h1', settlements);
  // They are counted by the names of their flights, in each by their places.
  const names = [...new Set(settlements.map(({ flight }) => flight.name))];
  const ordered = names.flatMap((name) => settlements.filter(({ flight }) => flight.name === name).sort((a, b) => a.index - b.index));
  const live = model.live;
  const again = ordered.filter(({ verdict }) => live && (verdict === 'r' || verdict === 'b'));
  for (const { index } of again) model.tasks[index] = 'w';
  const ends = ordered.filter((one) => !again.includes(one));
  for (const { index } of ends) model.tasks[index] = 'p';
  running.clear();
  const over = model.status === 'cancelled' ? 'x' : 'f';
  model.finish(ends.map(({ index, verdict }) => [index, verdict === 'c' ? 'c' : verdict === 'b' ? over : 'f'] as const));
}

/** Sends what waits of the notifications, and says how that went. */
async function send(how: readonly Verdict[], model: Model): Promise<void> {
  const { tasks } = await rig.claimed('h2', 1_000, { notes: 1_000, rooms: [['o1', 0]], unpark: [] });
  const notes = tasks.filter(({ of }) => of !== null);
  assert.equal(notes.length, tasks.length, 'tasks have no room');
  for (const { index } of notes) {
    const due_ms = model.due_ms.get(index) ?? 0;
    assert.ok(rig.now_ms >= due_ms, `${index} is sent ${due_ms - rig.now_ms} ms before its time`);
    model.sent.add(index);
  }
  await rig.settleAll(
    'h2',
    notes.map(({ flight, index }, k) => {
      const verdict = how[k % how.length] ?? 'c';
      return { flight, index, verdict, delay_ms: verdict === 'r' ? 300 : 0, result: verdict === 'b' ? '' : '[1,0,200,5]' };
    }),
  );
  // They would be tasks that nobody claims.
  await rig.claimed('h2', 0, { notes: 0, unpark: ['*'] });
}

/** The process that ran them is lost: they fail, in whatever order. */
async function lose(model: Model, running: Map<number, Claimed>): Promise<void> {
  if (running.size === 0) return;
  for (let times = 0; times < 3; times++) {
    rig.pass(2_900);
    await rig.tick('h3', { recoveries_max: times === 2 ? 1 : 3 });
  }
  const lost = [...running.keys()];
  running.clear();
  model.finish(
    lost.map((i) => [i, 'f'] as const),
    lost,
  );
}

async function same(core: string, model: Model): Promise<void> {
  const pages = await rig.redis.hgetallBuffer(keys.segment(0, notesCore(core), 0));
  const fields = Object.keys(pages).filter((field) => /^\d+$/.test(field));
  const found = fields
    .sort((a, b) => Number(a) - Number(b))
    .flatMap((field) => decodePage(pages[field] ?? Buffer.alloc(0)).map(({ payload }) => decodeNote(payload ?? Buffer.alloc(0))));
  const plain = found.map(({ failure: _, ...note }) => note);
  assert.deepEqual(
    plain,
    model.told.map(({ failures: _, ...note }) => note),
  );
  for (const [k, { failures }] of model.told.entries()) {
    const at = found[k]?.failure?.index;
    if (failures === null) assert.equal(at, undefined);
    else assert.ok(at !== undefined && failures.includes(at), `${at} failed first, of ${failures}`);
  }
}

test('the notifications of a batch are exactly those of the model', async () => {
  const { NOTES_SEED: seed, NOTES_PATH: path } = process.env;
  await fc.assert(fc.asyncProperty(setup, run), {
    numRuns: RUNS,
    endOnFailure: false,
    examples: [
      [
        {
          ...{ tasks: 1, hold: true, min_interval_ms: 0, events: ['on_progress', 'on_finish'], origins: ['webhookor1'] },
          steps: [{ kind: 'cancelTask', index: 0 }, { kind: 'release' }],
        },
      ],
    ],
    ...(seed === undefined ? {} : { seed: Number(seed) }),
    ...(path === undefined ? {} : { path }),
  });
});
