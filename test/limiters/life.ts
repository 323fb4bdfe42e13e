// What is true of a lane at any moment of a life (scenario.ts): its queue and its starts as they should be, time and the clock of
// its shard, and a look that is held against them. The names I1 to I12 are those of the properties in invariants.test.ts.
import assert from 'node:assert/strict';
import type { RedisClient } from '../../src/store/script.ts';
import type { FailSent, GrantSent, Lane, Look } from '../helpers/lane.ts';
import { Chance } from './chance.ts';
import type { Definition, Row, Start } from './kinds.ts';

const T0_US = 1_800_000_000_000_000;
const FAR_S = 604_800;
const LEASE_S_MIN = 90;
const LIFE_MS_MAX = 500;

interface Task {
  batch: string;
  index: number;
  /** What its range is named by. */
  key: string;
  cost: number;
  first_ms: number;
  valid_ms: number;
  place: number;
  /** In active time, µs. */
  arrived: number;
}

export interface Piece {
  sent: GrantSent;
  tasks: { task: Task; start: Start }[];
}

/** What this life may hold: some things cannot be told apart from outside when they come together. */
interface Traits {
  steps: boolean;
  backs: boolean;
  drops: boolean;
  patches: boolean;
  deadlines: boolean;
}

export abstract class Life {
  protected readonly client: RedisClient;
  protected readonly row: Row;
  protected readonly chance: Chance;
  protected readonly traits: Traits;
  readonly log: string[] = [];
  protected lane!: Lane;
  protected config: Record<string, number>;
  protected definition: Definition;
  /** Physical time, and what the shard's clock adds to it; µs. */
  protected p = T0_US;
  protected offset = 0;
  protected queue: Task[] = [];
  protected places = 0;
  protected starts: Start[] = [];
  protected pieces: Piece[] = [];
  protected batches: { core: string; next: number }[] = [];
  protected closed_until = 0;
  protected paused_until = 0;
  protected cooled_until = 0;
  protected closed_us = 0;
  protected queue_s: number;
  protected valid_s: number;
  /** Whether the definition says what a precise implementation would grant: nothing was given back, charged or changed. */
  protected precise = true;
  /** A charge, or a lease that need not end, makes the time that was told too early: the lane is looked at once for nothing. */
  protected early = false;
  protected enqueued = 0;
  protected granted = 0;
  protected expired = 0;
  protected dropped = 0;
  protected returned = 0;
  /** Ranges that a task has left. */
  protected readonly left = new Set<string>();
  /** How long before its time a start may be granted; it starts at its time. */
  protected readonly ahead_us: number;
  looks = 0;

  constructor(client: RedisClient, row: Row, seed: number) {
    this.client = client;
    this.row = row;
    const chance = new Chance(seed);
    this.chance = chance;
    this.ahead_us = chance.pick([0, 0, 0, 60_000, 5_000]);
    const backs = chance.one(2);
    this.traits = { steps: chance.one(4), backs, drops: !backs && chance.one(2), patches: chance.one(3), deadlines: chance.one(2) };
    if (this.traits.steps) this.traits.deadlines = false;
    // What forgets or moves used units does so while some starts are still to come; the definitions know of past ones alone.
    if (this.ahead_us > 0) Object.assign(this.traits, { steps: false, backs: false, patches: false });
    this.config = row.config(chance);
    this.definition = row.define(this.config);
    this.queue_s = this.traits.deadlines ? chance.pick([1, 3, 30, 300]) : FAR_S;
    this.valid_s = this.traits.deadlines ? chance.pick([2, 5, 60, 3600]) : FAR_S;
    this.p += chance.int(0, 999_999_999);
  }

  protected get s(): number {
    return this.p + this.offset;
  }

  protected get s_ms(): number {
    return Math.floor(this.s / 1000);
  }

  protected get active(): number {
    return this.p - this.closed_us;
  }

  protected get closed(): boolean {
    return this.closed_until > this.p;
  }

  protected say(what: string): void {
    this.log.push(`+${((this.p - T0_US) / 1000).toFixed(3)} ms ${what}`);
  }

  protected move(us: number): void {
    const to = this.p + us;
    if (this.closed_until > this.p) this.closed_us += Math.min(to, this.closed_until) - this.p;
    this.p = to;
  }

  /** Messages are stamped in ms. */
  protected wholeMs(): void {
    this.move(1000 - (this.p % 1000));
  }

  /** Looks as the pump does, at a bound of its own, or at the very time that the lane has told. */
  protected async look(): Promise<void> {
    this.move(1);
    const look = await this.lane.look(this.s, this.chance.pick([500, 500, 7, 1]), 16, this.ahead_us);
    this.check(look);
    if (look.more || look.next_us === null || !this.chance.one(2) || this.traits.steps) return;
    // I7: not a µs before, and then something.
    const wait = look.next_us - this.s;
    if (wait > 40 * 86_400_000_000) return;
    if (wait > 1) {
      this.move(wait - 1);
      const early = await this.lane.look(this.s, 500, 16, this.ahead_us);
      assert.equal(early.looked, false, 'I7: looked at before the time that was told');
      this.move(1);
    } else this.move(wait);
    const closed = this.closed_until > this.p - 1 && this.closed_until <= this.p;
    const then = await this.lane.look(this.s, 500, 16, this.ahead_us);
    this.check(then);
    const did = then.granted + then.expired + then.reclaimed;
    // What was dropped is still known by its time.
    assert.ok(
      did > 0 || closed || this.early || this.traits.drops || this.queue.length === 0,
      `I7: nothing happened at the time that was told: ${JSON.stringify(then)}`,
    );
    this.early = false;
  }

  protected check(look: Look): void {
    this.looks += 1;
    this.say(`look ${look.granted} granted, ${look.expired} expired, ${look.waiting} wait, next ${look.next_us}, more ${look.more}`);
    for (const sent of look.sent) {
      if (sent.kind === 'fail') this.failed(sent);
      else this.started(sent);
    }
    const total = this.granted - this.returned + this.expired + this.dropped + this.queue.length;
    assert.equal(total, this.enqueued, 'I5: tasks got lost, or more than came');
    if (look.looked) assert.equal(look.waiting, this.queue.length, 'I5: count of what waits');
    if (look.more) return;
    const head = this.queue[0];
    if (head === undefined) return;
    assert.ok(look.next_us === null || look.next_us > this.s, 'I8: a lane that can do nothing asks to be looked at at once');
    assert.deepEqual(
      this.queue.filter((task) => this.late(task, this.ahead_us) !== null).slice(0, 1),
      [],
      'I5: a task waits past its time',
    );
    if (this.precise && !this.closed && this.ahead_us === 0) {
      const free = this.definition.free(this.starts, this.p);
      assert.ok(free < Math.min(head.cost, this.config.capacity ?? head.cost), `a task waits though ${free} are free`);
    }
  }

  protected failed({ code, range }: FailSent): void {
    for (let index = range.from; index <= range.to; index++) {
      const at = this.queue.findIndex((task) => task.batch === range.batch && task.index === index);
      const task = this.queue[at];
      if (task === undefined && this.left.has(`${range.batch},${range.to}`)) continue;
      assert.ok(task, `I5: ${range.batch} ${index} failed and did not wait`);
      assert.equal(this.late(task, 0, code), code, 'I5: failed before its time, or for another reason');
      this.queue.splice(at, 1);
      this.expired += 1;
    }
  }

  /** Why a task may wait no longer, or null. A lane that is ahead of its time gives a task that comes then so much longer. */
  protected late(task: Task, slack_us: number, preferred?: string): string | null {
    const faults: string[] = [];
    if (task.valid_ms > 0 && this.s >= task.valid_ms * 1000) faults.push('expired');
    if (task.valid_ms === 0 && this.s >= (task.first_ms + this.valid_s * 1000) * 1000) faults.push('validity_timeout');
    if (this.active - task.arrived - slack_us >= this.queue_s * 1_000_000) faults.push('queue_timeout');
    return faults.find((fault) => fault === preferred) ?? faults[0] ?? null;
  }

  /** A start may be late, but so little that the lane hears of it in time, and not in another window than the one that it takes from. */
  #checkLife({ granted_ms, life_ms }: GrantSent): void {
    assert.ok(life_ms >= 1 && life_ms <= LIFE_MS_MAX, `good for ${life_ms} ms`);
    const { limit, interval = 0 } = this.config;
    if (this.row.type !== 'bucket' || limit === undefined) return;
    const [from, to] = [granted_ms, granted_ms + life_ms - 1].map((at_ms) => Math.floor(at_ms / (interval * 1000)));
    assert.equal(from, to, 'good beyond its window');
  }

  protected started(sent: GrantSent): void {
    const { range } = sent;
    assert.ok(!this.closed, 'a closed limiter lets tasks start');
    const piece: Piece = { sent, tasks: [] };
    let key = '';
    const at = this.ahead_us === 0 ? this.p : Math.max(this.p, sent.granted_ms * 1000 - this.offset);
    assert.ok(at <= this.p + this.ahead_us + 1000, 'granted more ahead of its time than asked for');
    this.#checkLife(sent);
    for (let index = range.from; index <= range.to; index++) {
      const task = this.queue.shift();
      assert.equal(`${task?.batch} ${task?.index}`, `${range.batch} ${index}`, 'I6: not the first in the line');
      assert.ok(task);
      assert.equal(this.late(task, this.ahead_us), null, 'I5: started after its time');
      assert.equal(range.cost, Math.min(task.cost, this.config.capacity ?? task.cost));
      const lease_s = Math.max(this.config.lock_timeout ?? 0, LEASE_S_MIN);
      const start = { at, cost: range.cost, lease_us: this.p + lease_s * 1_000_000 };
      this.starts.push(start);
      piece.tasks.push({ task, start });
      key = task.key;
    }
    this.granted += piece.tasks.length;
    const rest = this.queue.some((task) => task.key === key);
    // Not where who stood behind it has left: that is found by asking.
    if (rest || !this.left.has(key)) assert.equal(sent.last, !rest, 'the last of a range is not told as such');
    assert.ok(this.definition.allows(this.starts, at), 'I1-I4: more than the config allows');
    this.pieces.push(piece);
  }
}
