// One random life of a limiter, against the real scripts with given time: tasks come, start, are given back, leave or are dropped; its config
// changes, clocks step. After every look at the lane what it did is held against a plain definition of its kind (kinds.ts) and
// a plain queue (life.ts).
import assert from 'node:assert/strict';
import { readUsage } from '../../src/store/limiter-usage.ts';
import { ACCOUNT, Lane, type Range } from '../helpers/lane.ts';
import { Life, type Piece } from './life.ts';

const STEPS = 22;
const BACK_STEPS_US = [1_000, 400_000, 1_000_000, 5_000_000, 3_600_000_000];
const LOG_MAX = 1026;

export class Scenario extends Life {
  async run(partition: number): Promise<void> {
    const { type } = this.row;
    this.wholeMs();
    this.lane = await Lane.create(this.client, partition, {
      type,
      config: this.config,
      queue_s: this.queue_s,
      valid_s: this.valid_s,
      now_us: this.s,
    });
    this.log.push(`${JSON.stringify(this.config)} queue ${this.queue_s} s, valid ${this.valid_s} s, ${JSON.stringify(this.traits)}`);
    for (let k = 0; k < 3; k++) this.batches.push({ core: `${this.lane.newBatch(this.s)}`, next: 0 });
    for (let step = 0; step < STEPS; step++) {
      await this.#step();
      await this.look();
    }
    await this.#drain();
  }

  /** In its own order of chances: the common things are common. */
  async #step(): Promise<void> {
    const { steps, backs, drops, patches } = this.traits;
    const chance = this.chance;
    const roll = chance.int(0, 99);
    if (roll < 30) return this.#enqueue();
    if (roll < 55) return this.#pass();
    if (roll < 65 && backs) return this.#giveBack();
    if (roll < 72) return this.#finish();
    if (roll < 76 && drops) return this.#drop();
    if (roll < 80 && patches) return this.#patch();
    if (roll < 82) return this.#leave();
    if (this.ahead_us > 0) return this.#pass();
    if (roll < 84) return this.#close();
    if (roll < 86) return this.#open();
    if (roll < 88) return this.#reset();
    // A charge gives back without asking when; together with units that were not used no order of the two is right.
    if (roll < 91 && this.row.type === 'points' && !backs) return this.#charge();
    if (roll < 95 && steps) return this.#stepClock();
    if (roll < 97) return this.#readUsage();
    return this.#pass();
  }

  async #enqueue(): Promise<void> {
    const chance = this.chance;
    this.wholeMs();
    const ranges: Range[] = [];
    for (let k = chance.int(1, 3); k > 0; k--) {
      const batch = chance.pick(this.batches);
      const tasks = chance.pick([1, 1, 2, 5, 12, 40]);
      const from = batch.next;
      batch.next += tasks + chance.int(0, 1);
      const cost = this.row.type === 'points' ? chance.int(1, (this.config.capacity ?? 1) + 2) : 1;
      const first_ms = this.s_ms - (this.traits.deadlines ? chance.pick([0, 0, 100, 1500]) : 0);
      const valid_ms = this.traits.deadlines && chance.one(4) ? this.s_ms + chance.int(1, 5000) : 0;
      ranges.push({ batch: batch.core, from, to: from + tasks - 1, cost, first_ms, valid_ms });
      for (let index = from; index < from + tasks; index++) {
        const key = `${batch.core},${from + tasks - 1}`;
        this.queue.push({ batch: batch.core, index, key, cost, first_ms, valid_ms, place: this.places++, arrived: this.active });
      }
      this.enqueued += tasks;
      this.say(`queue ${batch.core} ${from}-${from + tasks - 1} cost ${cost} first ${first_ms} valid ${valid_ms}`);
    }
    await this.lane.queue(this.s, ...ranges);
  }

  async #pass(): Promise<void> {
    const interval_us = (this.config.interval ?? 30) * 1_000_000;
    const chance = this.chance;
    this.move(
      chance.pick([
        1,
        chance.int(1, 5_000),
        chance.int(1, 2_000_000),
        Math.ceil(interval_us / 7),
        interval_us,
        chance.int(1, interval_us * 2),
      ]),
    );
  }

  async #giveBack(): Promise<void> {
    const piece = this.#takePiece();
    if (piece === null) return;
    this.precise = false;
    this.wholeMs();
    const { sent } = piece;
    const first = piece.tasks[0]?.task.index ?? 0;
    const unused = this.chance.one(2);
    const keep = unused ? 0 : this.chance.int(0, piece.tasks.length - 1);
    const given = piece.tasks.slice(keep);
    const range = { ...sent.range, from: first + keep, to: first + piece.tasks.length - 1 };
    for (const { start } of given) this.starts.splice(this.starts.indexOf(start), 1);
    if (keep > 0) this.pieces.push({ sent, tasks: piece.tasks.slice(0, keep) });
    this.say(`${unused ? 'unused' : 'back'} ${range.batch} ${range.from}-${range.to}`);
    this.returned += given.length;
    this.early = this.row.type === 'concurrent';
    if (unused) {
      this.dropped += given.length;
      await this.lane.unused(this.s, sent.granted_ms, range);
      return;
    }
    const place = given[0]?.task.place ?? 0;
    const at = this.queue.findIndex((task) => task.place > place);
    const arrived = Math.min(this.active, at === -1 ? this.active : (this.queue[at]?.arrived ?? 0));
    const key = `${range.batch},${range.to}`;
    const tasks = given.map(({ task }) => ({ ...task, key, arrived, cost: range.cost }));
    this.queue.splice(at === -1 ? this.queue.length : at, 0, ...tasks);
    await this.lane.back(this.s, sent, range);
  }

  /** Tasks end; slots are free again. */
  async #finish(): Promise<void> {
    const piece = this.#takePiece();
    if (piece === null || this.row.type !== 'concurrent') return;
    this.wholeMs();
    const { batch } = piece.sent.range;
    const [first, last] = [piece.tasks[0]?.task.index ?? 0, piece.tasks.at(-1)?.task.index ?? 0];
    for (const { start } of piece.tasks) this.starts.splice(this.starts.indexOf(start), 1);
    this.say(`free ${batch} ${first}-${last}`);
    this.early = true;
    await this.lane.receive(this.s, `free ${this.lane.core} ${batch} ${first} ${last}`);
  }

  #takePiece(): Piece | null {
    if (this.pieces.length === 0) return null;
    return this.pieces.splice(this.chance.int(0, this.pieces.length - 1), 1)[0] ?? null;
  }

  async #drop(): Promise<void> {
    this.wholeMs();
    const batch = this.chance.pick(this.batches).core;
    const left = this.queue.filter((task) => task.batch !== batch);
    this.dropped += this.queue.length - left.length;
    this.queue = left;
    this.say(`drop ${batch}`);
    await this.lane.receive(this.s, `drop ${this.lane.core} ${batch}`);
  }

  /** One task is cancelled: one that waits, or one that may not wait here. */
  async #leave(): Promise<void> {
    this.wholeMs();
    const { core, next } = this.chance.pick(this.batches);
    const waits = this.chance.one(4) || this.queue.length === 0 ? null : this.chance.pick(this.queue);
    const { batch, index, key } = waits ?? { batch: core, index: next, key: `${core},${next}` };
    this.queue = this.queue.filter((task) => task !== waits);
    if (waits !== null) this.dropped += 1;
    this.left.add(key);
    this.say(`leave ${batch} ${index}`);
    await this.lane.receive(this.s, `leave ${this.lane.core} ${key},0 ${index}`);
  }

  async #patch(): Promise<void> {
    this.move(1);
    const fresh = this.row.config(this.chance);
    // Sometimes only a number changes.
    const config = this.chance.one(2) && this.config.interval !== undefined ? { ...fresh, interval: this.config.interval } : fresh;
    this.definition.patch(config, this.starts, this.p);
    this.config = config;
    this.precise = false;
    this.say(`patch ${JSON.stringify(config)}`);
    await this.lane.patch(this.s, config);
    this.move(1);
  }

  async #close(): Promise<void> {
    this.wholeMs();
    const ms = this.chance.int(1, 5000);
    if (this.chance.one(2)) {
      this.cooled_until = Math.max(this.cooled_until, this.p + ms * 1000);
      this.say(`cool ${ms}`);
      await this.lane.receive(this.s, `cool ${this.lane.core} ${ms}`);
    } else {
      const ever = this.chance.one(3);
      this.paused_until = ever ? Number.POSITIVE_INFINITY : this.p + ms * 1000;
      this.say(`pause ${ever ? '' : ms}`);
      await this.lane.pause(this.s, ever ? null : this.s_ms + ms);
    }
    this.closed_until = Math.max(this.cooled_until, this.paused_until);
  }

  async #open(): Promise<void> {
    this.move(1);
    this.paused_until = 0;
    this.cooled_until = 0;
    this.closed_until = 0;
    this.say('resume');
    await this.lane.resume(this.s);
  }

  async #reset(): Promise<void> {
    this.move(1);
    this.definition.reset(this.p);
    this.say('reset');
    await this.lane.reset(this.s);
    this.move(1);
  }

  async #charge(): Promise<void> {
    this.wholeMs();
    const difference = this.chance.int(-20, 20);
    this.precise = false;
    this.definition.charge?.(difference, this.p);
    this.say(`points ${difference}`);
    this.early = true;
    await this.lane.receive(this.s, `points ${this.lane.core} ${difference}`);
    this.move(1);
  }

  async #stepClock(): Promise<void> {
    this.precise = false;
    const back = !this.chance.one(4);
    const us = this.chance.pick(BACK_STEPS_US);
    this.offset += back ? -us : us;
    this.say(`clock ${back ? '-' : '+'}${us}`);
    // Time that jumps forward brings what it would have brought: from then on the rule holds anew.
    if (!back) this.definition.reset(this.p);
    if (!back) for (const start of this.starts) start.lease_us -= us;
    this.definition.stepped?.(this.p);
    // A pause ends by the clock.
    if (this.paused_until < Number.POSITIVE_INFINITY) await this.#open();
    this.move(1);
    if (!back || this.queue.length === 0 || !this.row.timed) return;
    // I9: whatever the clock did, the next units come after one interval at most, and those that a dear task needs after theirs.
    const head = this.queue[0];
    await this.#open();
    const config = this.config;
    const units = config.limit === undefined ? Math.min(head?.cost ?? 1, config.capacity ?? 1) : 1;
    const intervals = 1 + Math.ceil((config.capacity ?? 0) + units) / (config.drain_rate ?? config.refill_rate ?? 1);
    this.move(Math.ceil(intervals * (config.interval ?? 0) * 1_001_000) + 1_100_000);
    const before = this.granted + this.expired;
    await this.look();
    assert.ok(this.granted + this.expired > before, 'I9: nothing starts an interval after the clock stepped back');
  }

  async #readUsage(): Promise<void> {
    const before = await this.#dump();
    const usage = await readUsage(this.client, ACCOUNT, this.lane.core, this.s);
    assert.deepEqual(await this.#dump(), before, 'I12: a read changes nothing');
    assert.equal(usage?.queued, this.queue.length);
  }

  async #dump(): Promise<(Buffer | null)[]> {
    const parts = ['', ':q', ':e', ':first', ':until', ':n', ':dropped', ':use', ':log', ':run'];
    return Promise.all(parts.map((part) => this.client.dumpBuffer(this.lane.key(part))));
  }

  /** At last the limiter is deleted, and everything that waits starts; its log was never longer than it may be. */
  async #drain(): Promise<void> {
    if (this.row.type === 'window') {
      const length = await this.client.llen(this.lane.key(':log'));
      assert.ok(length <= LOG_MAX, `I10: ${length} entries in the log`);
    }
    this.move(1);
    await this.lane.delete(this.s);
    this.closed_until = 0;
    const waiting = this.queue.filter((task) => task.valid_ms === 0 || task.valid_ms * 1000 > this.s).length;
    const look = await this.lane.lookAll(this.s, this.ahead_us);
    assert.equal(look.granted, waiting, 'what waits at a deleted limiter starts at once');
    assert.equal(look.granted + look.expired, this.queue.length);
  }
}
