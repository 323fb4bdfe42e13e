// Random interleavings of everything that can happen to messages, against a reference of the same (outbox-model.ts):
// any number of relayers and sweepers that stop, repeat, come late or lose replies between any two steps, and failovers of
// either side that forget up to 5 s of writes. After each step everything that Redis holds of it is compared.
//
// At the end all relayers work again. Then what was sent by a source that still knows of it has been applied exactly once
// and in order, but for what its destination forgot; and each reference is where its source wants it, whatever was forgotten.
//
// The seed is printed; OUTBOX_SEED and OUTBOX_PATH run a failure again, OUTBOX_RUNS sets the number of runs.
import assert from 'node:assert/strict';
import { after, type TestContext, test } from 'node:test';
import fc from 'fast-check';
import { keys } from '../../src/store/keys.ts';
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
  relay,
  SLICE_MS_MAX,
  type Slice,
  sweep,
} from '../../src/store/outbox.ts';
import { append, laneOf, readHeld, type Send } from '../helpers/outbox.ts';
import { startRig, T0 } from '../helpers/rig.ts';
import { OutboxModel, type State } from './outbox-model.ts';
import { type Of, PARTITIONS, type Step, steps } from './outbox-steps.ts';

const RUNS = Number(process.env['OUTBOX_RUNS'] ?? 300);
/** What a failover may forget; the sweep relies on AWAY_AFTER_MS being more. */
const FORGOTTEN_MS_MAX = 5_000;
const HANDS_MAX = 6;

/** A slice in the hands of some relayer, and what the destination answered. */
interface Carried {
  source: number;
  read_ms: number;
  slice: Slice;
  received: Received | null;
}

/** References in the hands of some sweeper. */
interface Asking {
  source: number;
  asked_ms: number;
  references: Overdue[];
  answers: Answer[] | null;
}

/** A partition as a replica may have it: what was written later is lost in a failover. */
interface Copy {
  written_ms: number;
  state: State;
  rows: [key: Buffer, bytes: Buffer][];
}

const rig = await startRig();
const { redis } = rig;
after(() => redis.disconnect());

const DUMP = `
local out = {}
for i, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do out[i] = { key, redis.call('DUMP', key) } end
return out`;
const RESTORE = `
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do redis.call('DEL', key) end
for i = 2, #ARGV, 2 do redis.call('RESTORE', ARGV[i], 0, ARGV[i + 1]) end`;

class Run {
  readonly model = new OutboxModel(PARTITIONS);
  readonly #carried: Carried[] = [];
  readonly #asking: Asking[] = [];
  readonly #copies: Copy[][] = [];
  /** Messages that a destination had applied and forgot, those that a source forgot, and references that it forgot. */
  readonly #unapplied = new Set<string>();
  readonly #unsent = new Set<string>();
  readonly #unhanded = new Set<string>();
  #refs = 0;

  async begin(): Promise<void> {
    await rig.reset(PARTITIONS);
    this.model.now_ms = rig.now_ms;
    for (let p = 0; p < PARTITIONS; p++) {
      this.#copies[p] = [];
      await this.#wrote(p);
    }
  }

  async step(one: Step): Promise<void> {
    await this.#take(one);
    for (let p = 0; p < PARTITIONS; p++) this.model.compare(p, await readHeld(redis, p));
  }

  /** Everything works again for long enough. */
  async end(): Promise<void> {
    this.#carried.length = 0;
    this.#asking.length = 0;
    for (let round = 0; round < 4; round++) {
      for (let source = 0; source < PARTITIONS; source++) await this.step({ kind: 'relay', partition: source });
      this.#checkApplied();
      // Longer than anything has been away: what was confirmed early is asked about again.
      this.#pass(4_000_000);
      for (let source = 0; source < PARTITIONS; source++) await this.step({ kind: 'sweep', partition: source });
    }
    this.#checkReferences(false);
    for (let source = 0; source < PARTITIONS; source++) await this.#releaseAll(source);
    for (let source = 0; source < PARTITIONS; source++) await this.step({ kind: 'relay', partition: source });
    this.#pass(AWAY_AFTER_MS);
    for (let source = 0; source < PARTITIONS; source++) await this.step({ kind: 'sweep', partition: source });
    this.#checkReferences(true);
  }

  #take(one: Step): Promise<void> | void {
    switch (one.kind) {
      case 'append':
        return this.#append(one);
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
      case 'overdue':
        return this.#overdue(one);
      case 'ask':
        return this.#ask(one);
      case 'book':
        return this.#book(one);
      case 'sweep':
        return this.#sweep(one.partition);
      case 'failover':
        return this.#failover(one);
      case 'pass':
        return this.#pass(one.ms);
    }
  }

  async #append({ partition: source, items }: Of<'append'>): Promise<void> {
    const sends = items.map(({ verb, to, pick: n }): Send => {
      if (verb === 'bare') return ['bare', laneOf(to, 'bare'), `ref${++this.#refs}`];
      const known = [...this.model.state(source).handed].filter((field) => !field.includes('bare'));
      const [lane, ref] = known.at(-1 - (n % Math.max(1, known.length)))?.split(' ') ?? [];
      if (verb === 'hand' || lane === undefined || ref === undefined) return ['hand', laneOf(to), `ref${++this.#refs}`];
      return [verb === 'release' ? 'release' : 'hand', lane, ref];
    });
    await this.#appendAll(source, sends);
  }

  async #appendAll(source: number, sends: readonly Send[]): Promise<void> {
    await append(redis, source, sends);
    this.model.append(source, sends);
    await this.#wrote(source);
  }

  async #slice({ partition: source, max }: Of<'slice'>): Promise<void> {
    const { slices } = await readSlices(redis, source, { messages_max: max });
    for (const slice of slices) this.#carried.push({ source, slice, read_ms: rig.now_ms, received: null });
    this.#carried.splice(0, this.#carried.length - HANDS_MAX);
  }

  /** Also of a slice that was received or acknowledged before, by this relayer or another. */
  async #receive({ pick: n, lost: reply_lost }: Of<'receive'>): Promise<void> {
    const carried = this.#carried[n % Math.max(1, this.#carried.length)];
    if (carried === undefined || rig.now_ms - carried.read_ms > SLICE_MS_MAX) return;
    const { source, slice } = carried;
    const received = await receive(redis, source, slice);
    assert.deepEqual(received, this.model.receive(source, textOf(slice)));
    await this.#wrote(slice.destination);
    if (!reply_lost) carried.received = received;
  }

  async #ack({ pick: n }: Of<'ack'>): Promise<void> {
    const ready = this.#carried.filter(({ received }) => received !== null);
    const carried = ready[n % Math.max(1, ready.length)];
    if (carried?.received == null) return;
    const { source, slice, received } = carried;
    await acknowledge(redis, source, slice, received.mark);
    this.model.acknowledge(source, textOf(slice), received.mark);
    await this.#wrote(source);
  }

  async #relay(source: number): Promise<void> {
    await relay(redis, source);
    for (const slice of this.model.slices(source)) {
      const { mark } = this.model.receive(source, slice);
      this.model.acknowledge(source, slice, mark);
    }
    for (let p = 0; p < PARTITIONS; p++) await this.#wrote(p);
  }

  async #overdue({ partition: source }: Of<'overdue'>): Promise<void> {
    const { asked_ms, references } = await readOverdue(redis, source, AWAY_AFTER_MS);
    const byField = (a: Overdue, b: Overdue): number => (a.field < b.field ? -1 : 1);
    assert.deepEqual([...references].sort(byField), this.model.overdue(source, AWAY_AFTER_MS).sort(byField));
    await this.#wrote(source);
    for (let p = 0; p < PARTITIONS; p++) {
      const group = references.filter(({ destination }) => destination === p);
      if (group.length > 0) this.#asking.push({ source, asked_ms, references: group, answers: null });
    }
    this.#asking.splice(0, this.#asking.length - HANDS_MAX);
  }

  async #ask({ pick: n }: Of<'ask'>): Promise<void> {
    const asking = this.#asking.at(-1 - (n % Math.max(1, this.#asking.length)));
    const destination = asking?.references[0]?.destination;
    if (asking === undefined || destination === undefined) return;
    asking.answers = await askLanes(redis, destination, asking.references);
    assert.deepEqual(asking.answers, this.model.ask(asking.references));
  }

  async #book({ pick: n }: Of<'book'>): Promise<void> {
    const ready = this.#asking.filter(({ answers }) => answers !== null);
    const asking = ready.at(-1 - (n % Math.max(1, ready.length)));
    if (asking?.answers == null) return;
    const { source, answers, asked_ms } = asking;
    assert.deepEqual(await book(redis, source, answers, asked_ms), this.model.book(source, answers, asked_ms));
    await this.#wrote(source);
  }

  async #sweep(source: number): Promise<void> {
    // The order within one call decides which number is whose, so both are given the same.
    const since = (await readHeld(redis, source)).since;
    this.model.state(source).since = new Map(Object.entries(since));
    const references = this.model.overdue(source, AWAY_AFTER_MS);
    const groups = [...new Set(references.map(({ destination }) => destination))];
    const answers = groups.flatMap((p) => this.model.ask(references.filter(({ destination }) => destination === p)));
    assert.deepEqual(await sweep(redis, source), { ...this.model.book(source, answers, this.model.now_ms), failed: [] });
    await this.#wrote(source);
  }

  async #failover({ partition: p, back }: Of<'failover'>): Promise<void> {
    const copies = this.#copies[p] ?? [];
    // A copy can be what is left where everything after it was written lately.
    const lately = copies.filter((_, i) => (copies[i + 1]?.written_ms ?? this.model.now_ms) >= this.model.now_ms - FORGOTTEN_MS_MAX);
    const copy = lately.at(-1 - back) ?? lately[0];
    if (copy === undefined) return;
    copies.length = copies.indexOf(copy) + 1;
    const before = this.model.state(p);
    this.model.states[p] = structuredClone(copy.state);
    missing(before.applied, copy.state.applied, this.#unapplied);
    missing(before.sent, copy.state.sent, this.#unsent);
    missing(before.handed, copy.state.handed, this.#unhanded);
    await redis.eval(RESTORE, 0, rootOf(p), ...copy.rows.flat());
    this.#pass(1_000);
  }

  #pass(ms: number): void {
    rig.pass(ms);
    this.model.now_ms = rig.now_ms;
  }

  async #wrote(p: number): Promise<void> {
    const rows = (await redis.callBuffer('eval', [DUMP, 0, rootOf(p)])) as Copy['rows'];
    const copies = this.#copies[p] ?? [];
    copies.push({ written_ms: this.model.now_ms, state: structuredClone(this.model.state(p)), rows });
    if (copies.length > 8) copies.shift();
  }

  async #releaseAll(source: number): Promise<void> {
    const fields = [...this.model.state(source).handed, ...this.#unhanded];
    if (fields.length === 0) return;
    const sends = fields.map((field) => field.split(' ')).map(([lane = '', ref = '']): Send => ['release', lane, ref]);
    await this.#appendAll(source, sends);
  }

  /** Nothing waits; what its source knows of was applied once, in order, unless it was applied and forgotten. */
  #checkApplied(): void {
    for (const [p, { outbox, applied, sent }] of this.model.states.entries()) {
      assert.equal(outbox.size, 0, `nothing waits in ${p}`);
      const reached = new Set(this.model.states.flatMap((state) => state.applied));
      for (const message of sent) assert.ok(reached.has(message) || this.#unapplied.has(message), `${message} was lost`);
      for (let source = 0; source < PARTITIONS; source++) {
        const own = applied.filter((message) => message.startsWith(`${source}>`));
        assert.equal(new Set(own).size, own.length, 'none twice');
        assert.deepEqual(own, [...own].sort(bySequence), 'in order');
        const known = new Set(this.model.state(source).sent);
        for (const message of own) assert.ok(known.has(message) || this.#unsent.has(message), `${message} was never sent`);
      }
    }
  }

  /** What lanes hold is what their sources want; beyond it only what a source handed over and forgot. */
  #checkReferences(released: boolean): void {
    const held = new Set(
      this.model.states.flatMap(({ lanes }) => [...lanes].flatMap(([lane, refs]) => [...refs.keys()].map((r) => `${lane} ${r}`))),
    );
    for (const [p, { away, since, outbox }] of this.model.states.entries()) {
      if (released) assert.deepEqual([away.size, since.size, outbox.size], [0, 0, 0], `nothing stays in ${p}`);
      for (const [field, { wanted }] of away) {
        assert.equal(wanted, 'q', `${field} was released and is still remembered`);
        assert.ok(held.has(field), `${field} is not at its lane`);
      }
    }
    const wanted = new Set(this.model.states.flatMap(({ away }) => [...away.keys()]));
    const bare = (field: string): boolean => field.includes('bare');
    for (const field of held) assert.ok(wanted.has(field) || (!released && (bare(field) || this.#unhanded.has(field))), `${field} stays`);
  }
}

/** What a failover took away. */
function missing(before: Iterable<string>, left: Iterable<string>, into: Set<string>): void {
  const known = new Set(left);
  for (const one of before) if (!known.has(one)) into.add(one);
}

function textOf({ destination, messages }: Slice): { destination: number; messages: string[] } {
  return { destination, messages: messages.map(String) };
}

function bySequence(a: string, b: string): number {
  return Number(a.split(' ')[1]) - Number(b.split(' ')[1]);
}

function rootOf(p: number): string {
  return keys.partition(p).slice(0, -1);
}

test('messages arrive once and in order, references end where they are wanted', async (t: TestContext) => {
  const seed = Number(process.env['OUTBOX_SEED'] ?? Date.now() % 2 ** 31);
  t.diagnostic(`OUTBOX_SEED=${seed}`);
  const property = fc.asyncProperty(steps, async (list) => {
    const run = new Run();
    await run.begin();
    for (const one of list.flat()) await run.step(one);
    await run.end();
  });
  const path = process.env['OUTBOX_PATH'];
  await fc.assert(property, { seed, numRuns: RUNS, ...(path === undefined ? {} : { path }) });
  assert.ok(rig.now_ms > T0);
});
