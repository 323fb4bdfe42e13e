// One partition's machine, as one thread turns it.
//
//        bell, due time, capacity, outcomes
//                     │
//                     ▼
//   idle ──▶ turn: settle + tick + claim + grant in one round trip ──▶ start what was claimed ──▶ idle
//                     │                                              │
//                     └── error: the same again after a back-off     └── outcome ──▶ buffered for the next turn
//
// There is one turn at a time. It runs when many outcomes are buffered or the first is 2 ms old (8 while others are under way that may keep it
// company), when something is due by the partition's clock, when the bell rings, and every few seconds in any case, which repairs a lost bell.
// An error leaves everything as it was: outcomes stay buffered, and a claim whose reply is lost may have happened, so it is repeated under its number.
import { monotonicMs } from '../base/clock.ts';
import { CLAIM_HELP_MIN, CLAIM_MAX, PLACES_MIN } from '../base/limits.ts';
import { ringBell } from '../store/offers.ts';
import {
  answersOf,
  type ClaimReply,
  isFinal,
  type Late,
  readActive,
  type Settlement,
  type SettleReply,
  type TickReply,
  turn,
} from '../store/partition.ts';
import type { RedisClient } from '../store/script.ts';
import { Agenda } from './agenda.ts';
import { Backlog } from './backlog.ts';
import { Calls, type Door } from './calls.ts';
import { Fence } from './fence.ts';
import { InFlight } from './in-flight.ts';
import { Looks } from './looks.ts';
import { Outcomes } from './outcomes.ts';
import { PartitionClock } from './partition-clock.ts';
import type { PumpHost, PumpSettings } from './pump-host.ts';
import { handedBack } from './verdict.ts';

/** Who has work in a partition says so often that he lives (lua/partition/tick.lua). No round number: what comes each second would wait for it each time. */
const ALIVE_MS = 1_930;

export class Pump {
  readonly partition: number;
  readonly #client: RedisClient;
  readonly #settings: PumpSettings;
  readonly #host: PumpHost;
  readonly flying = new InFlight();
  readonly #outcomes = new Outcomes(() => this.flying.count);
  /** An owner works on whatever the partition needs; a helper claims until nothing is left to claim; an express takes single tasks as they come. */
  #role: 'owner' | 'helper' | 'express' | null = null;
  readonly #backlog = new Backlog();
  readonly #calls = new Calls();
  readonly #looks: Looks;
  readonly clock = new PartitionClock();
  readonly #agenda = new Agenda(this.clock);
  readonly fence: Fence;
  #running = false;
  #claim_under_way = false;
  #hearing = false;
  #again = false;
  #timer: NodeJS.Timeout | undefined;
  #idle: (() => void)[] = [];

  constructor(partition: number, client: RedisClient, settings: PumpSettings, host: PumpHost) {
    this.partition = partition;
    this.#client = client;
    this.#settings = settings;
    this.#host = host;
    this.#looks = new Looks(settings.sweep_ms);
    this.fence = new Fence(settings.fence_ms);
  }

  /** From now on claims work here; the first turn begins at once. */
  own(): void {
    if (this.owned) return;
    this.#role = 'owner';
    this.#looks.owned();
    this.#backlog.everything();
    this.#agenda.everything();
    this.wake();
  }

  /** From now on the next single task is handed over to it, again and again; it claims none. It looks first, to know the clock by which that is dated. */
  express(): void {
    this.#role = 'express';
    this.#calls.begin(monotonicMs());
    this.#agenda.clear();
    this.#agenda.look();
    this.wake();
  }

  /** Claims here, beside the owner or as the owner, as long as there is something to claim: work for `parked`, for which another has no room, and what is `ready`. */
  help(parked: readonly string[], ready: boolean): void {
    if (!this.owned) this.#role = 'helper';
    if (!this.owned && this.empty) this.#agenda.clear();
    this.#backlog.passed(this.#host.origins, this.partition, parked, ready);
    this.wake();
  }

  /** Claims nothing more; what is in flight is still settled. `ending`: for good, and an offer is taken back where that can be done at once. */
  disown(ending = false): void {
    this.#role = null;
    this.#hearing = false;
    if (ending) this.#calls.end();
    if (this.#calls.offered) this.wake();
  }

  /** Whether what is handed over is heard: nothing is offered otherwise. */
  hear(heard: boolean): void {
    this.#hearing = heard;
    this.wake();
  }

  get #door(): Door {
    if (this.#role !== 'express' || !this.#hearing) return 'closed';
    return this.clock.known && this.#host.hasPlaces() ? 'open' : 'full';
  }

  get owned(): boolean {
    return this.#role === 'owner';
  }

  /** Given to this thread, and not only until it has ended what it does here. */
  get assigned(): boolean {
    return this.#role === 'owner' || this.#role === 'express';
  }

  get claiming(): boolean {
    return this.#role === 'owner' || this.#role === 'helper';
  }

  /** Whether nothing is in flight, nothing waits to be settled and no offer to be taken back. */
  get empty(): boolean {
    return this.flying.count === 0 && this.#outcomes.size === 0 && !this.#running && (this.assigned || !this.#calls.offered);
  }

  /** Resolves when nothing is in flight and every outcome was answered. */
  async drained(): Promise<void> {
    if (!this.empty) await new Promise<void>((done) => this.#idle.push(done));
  }

  /** Ends the timer; only for a pump that is empty or abandoned. */
  close(): void {
    // Whoever owns the partition now lets go of all that is parked there; here nobody waits for a turn any more.
    this.#host.origins.unparkedAll(this.partition);
    this.#agenda.close();
    this.disown();
    clearTimeout(this.#timer);
  }

  /** A hint from the partition: `0`, work is ready; `l`, a limiter can let some start; `o`, messages wait; else the time (its clock, ms) at which work will be ready. */
  bell(message: string): void {
    if (message === 'o') return this.#host.relay(this.partition);
    if (message === 'l') this.#agenda.askLimiters();
    else if (message === '0') this.#backlog.found();
    else this.#agenda.dueAt(Number(message));
    this.#agenda.look(this.#looks.heard_ms());
    this.wake();
  }

  /** A task of this partition was handed over, to this pump or to another one. Its request comes first, which undici writes in this turn's check phase. */
  handed(message: string): void {
    if (!this.#calls.heard(message, this.#settings.holder)) return;
    this.#takeHanded();
    setImmediate(() => this.#arm());
  }

  /** Others came or went: one who is gone may have left work here, though this partition was not his. */
  glance(): void {
    this.#agenda.look();
    this.wake();
  }

  /** A helper has left, and what it knew to be parked. */
  left(): void {
    this.#backlog.left();
    this.wake();
  }

  /** Bells may have been lost, and a Redis that died or was replaced its latest writes with them: looks for itself. */
  look(): void {
    this.#backlog.found();
    this.flying.doubt();
    this.#calls.doubt();
    this.glance();
  }

  /** Places have become free: goes on where work was left for want of them. */
  hungry(): boolean {
    return this.#role !== null && !this.#running && monotonicMs() >= this.#agenda.pause_until_ms && this.#hasWork();
  }

  /** Whether it has so little in flight that it gets places whatever the others have. */
  get starving(): boolean {
    return this.flying.count < PLACES_MIN;
  }

  /** Whether there is something to claim, or for an express to offer. */
  #hasWork(): boolean {
    if (this.#role === 'express') return monotonicMs() >= this.#calls.due_ms(this.#door, this.#host.offer_gap_ms);
    return this.#backlog.has(this.#host.origins, this.partition, this.#host.has_notes);
  }

  /** What became of a task that was started. It counts as in flight until Redis has answered. For the last of those under way no timer is set, which would be a millisecond late. */
  settle(settlement: Settlement): void {
    const changed = this.#outcomes.push(settlement);
    if (this.#outcomes.full) this.wake();
    else if (changed && this.#outcomes.complete) setImmediate(() => this.wake());
    else if (changed) this.#arm();
  }

  /** A request was written later than its limiter let it start; null where it was not. */
  late(late: Late | null): void {
    if (late !== null && this.#outcomes.late(late)) this.#arm();
  }

  /** Begins a turn now, or right after the one that runs. */
  wake(): void {
    if (this.#running) {
      this.#again = true;
      return;
    }
    void this.#turns();
  }

  /** Hands back what Redis thinks is in flight here and nobody runs; returns how many ranges. */
  audit(): Promise<number> {
    const active = () => readActive(this.#client, this.partition, this.#settings.holder);
    return this.flying.audit(active, (flight, index) => this.settle({ flight, index, verdict: 'b', delay_ms: 0, result: '' }));
  }

  async #turns(): Promise<void> {
    this.#running = true;
    let again: boolean;
    do {
      this.#again = false;
      again = await this.#turn().catch((error: unknown) => this.#failed(error instanceof Error ? error : new Error(String(error))));
      this.#takeHanded();
    } while (again || this.#again);
    this.#running = false;
    if (this.empty) {
      for (const done of this.#idle.splice(0)) done();
      if (this.#role === 'helper' && !this.#hasWork()) return this.#host.helped(this, this.#backlog.parks);
    }
    this.#arm();
    // Whoever was fed meanwhile passed over this pump, since it was running.
    if (this.hungry()) this.#host.stillHungry(this);
  }

  /** One round trip; true where the next one should follow at once. */
  async #turn(): Promise<boolean> {
    const began_ms = monotonicMs();
    if (began_ms < this.#agenda.pause_until_ms) return false;
    const settlements = this.#outcomes.takeDue(began_ms);
    const { tick: look, due, grant: ask } = this.#agenda.at(began_ms);
    const places = this.claiming && (due || this.#hasWork()) ? this.#host.reserve(this, CLAIM_MAX, PLACES_MIN - this.flying.count) : 0;
    const grant = this.owned && ask;
    const lates = this.#outcomes.takeLates();
    const does = this.#calls.turn(began_ms, this.#door, this.#host.offer_gap_ms, settlements.length > 0);
    // What an offer that ends has brought is started, so whoever does it has to live.
    const tick = look || does === 'end';
    if (settlements.length === 0 && !tick && places === 0 && !grant && lates.length === 0 && does === null) return false;
    this.#agenda.took({ tick, grant });
    this.#claim_under_way = places > 0 || does === 'end';
    const notes = places > 0 ? this.#host.reserveNotes(places) : 0;
    const reply = await turn(this.#client, this.partition, this.#settings, {
      settlements,
      tick,
      // A claim of no places brings what came of an offer that ends, and nothing else.
      claim: this.#claim_under_way
        ? {
            call_no: this.#calls.number,
            budget: places,
            notes,
            ...this.#backlog.ask(this.#host.origins, this.partition, places),
            suspects: places > 0 && this.#backlog.suspects ? Number(this.#host.mayBringSuspect(this)) : -1,
          }
        : null,
      grant,
      lates,
      offer: does === null ? null : { does, call_no: this.#calls.number },
    });
    this.#claim_under_way = false;
    const { settled, tick: ticked, claimed, granted, told, offered, messages, error } = answersOf(reply);
    if (places > 0) this.#host.claimEnded(this, claimed?.tasks ?? null);
    // What else is asked does not say that whoever asks lives.
    if (error === null && (ticked !== null || claimed?.tasks.length)) this.fence.answered(began_ms);
    for (const one of [settled, ticked, claimed, granted, offered]) if (one !== null) this.clock.heard(one.now_ms, began_ms);
    if (settled !== null) this.#settled(settlements, settled);
    else this.#outcomes.putBack(settlements);
    if (ticked !== null) this.#ticked(ticked, grant, does === 'end');
    this.#host.releaseNotes(notes - (claimed?.tasks.filter(({ of }) => of !== null).length ?? 0));
    if (claimed !== null) this.#claimed(claimed, places);
    else this.#host.release(places);
    this.#agenda.granted(granted ?? { more: grant, next_ms: 0 });
    if (granted !== null) this.#host.granted(granted);
    if (told === null) this.#outcomes.putBackLates(lates);
    if (granted !== null && granted.slices.length > 0) this.#host.carry(this.partition, this.clock.dated(granted.slices));
    if (messages) this.#host.relay(this.partition, told === null ? [] : lates);
    if (error !== null) return this.#failed(error);
    if (does === 'check') this.#calls.checked(offered?.stands === true);
    this.#agenda.answered();
    // More to claim is asked for in turn with the other partitions: the host feeds those that are hungry.
    return this.#outcomes.full || this.#outcomes.complete || ticked?.more === true || granted?.more === true;
  }

  #settled(settlements: readonly Settlement[], reply: SettleReply): void {
    const left = new Set(reply.left);
    let again = false;
    for (const settlement of settlements.filter((one) => !left.has(one))) {
      this.flying.landed(settlement.flight.name);
      again ||= settlement.delay_ms === 0 && !isFinal(settlement.verdict);
    }
    this.#outcomes.putBack(reply.left);
    if (again || reply.ready) this.#told('0');
    this.#due(reply.first_due_ms);
  }

  #due(due_ms: number): void {
    this.#agenda.dueAt(due_ms);
    if (due_ms > 0) this.#told(String(due_ms));
  }

  /** A reply tells of work, now (`0`) or at a time; and so does this pump, where another one owns the partition. */
  #told(message: string): void {
    if (message === '0') this.#backlog.told();
    if (!this.owned) void ringBell(this.#client, this.partition, message);
  }

  #ticked(reply: TickReply, granting: boolean, asked: boolean): void {
    this.#host.ticked(reply);
    // Handed over, and not heard: the claim of that number brings it (this turn's, where it has one), or an audit finds it where that has passed.
    if (this.flying.missed(reply.mine) && !asked) this.#calls.doubt();
    if (reply.ready) this.#told('0');
    if (this.#role === 'express') {
      if (this.flying.count > 0 || reply.mine) this.#agenda.look(monotonicMs() + ALIVE_MS);
      // The owner looks after all else.
      return reply.more || reply.recovered > 0 ? this.#told(String(reply.now_ms)) : undefined;
    }
    const sweep_ms = this.#looks.wait_ms(this.flying.count > 0 || reply.ready, reply.empty);
    this.#agenda.ticked(reply, sweep_ms);
    if (reply.lanes && !granting) this.#agenda.askLimiters();
    if (reply.away) this.#host.sweep(this.partition);
    if (this.owned) this.#backlog.counted(this.#host.origins, this.partition, reply.parked);
  }

  #claimed(reply: ClaimReply, places: number): void {
    this.#calls.answered();
    this.#backlog.answered(this.#host.origins, this.partition, reply);
    this.#due(reply.first_due_ms);
    const { tasks } = reply;
    this.flying.claimed(tasks);
    if (tasks.length > 0) this.#agenda.look(monotonicMs() + ALIVE_MS);
    // A claim rounds up to whole pages, so it may bring a few more than were reserved.
    this.#host.release(places - tasks.length);
    const parked = this.#host.origins.whole(reply.parked);
    const overflows = this.claiming && tasks.length >= CLAIM_HELP_MIN && (parked.length > 0 || (this.owned && reply.more));
    if (overflows) this.#host.overflows(this, parked, reply.more);
    this.#host.run(this, tasks, reply.now_ms);
  }

  /** Starts what was handed over. While a claim is under way its answer may bring that, too. */
  #takeHanded(): void {
    if (this.#claim_under_way) return;
    this.#calls.take(this.flying, ({ task, now_ms }, late) => {
      const given_ms = this.clock.earliest_ms(now_ms);
      // Where others are in flight, that this one was called does not mean that those were heard of.
      if (this.flying.count === 0) this.fence.answered(given_ms);
      this.flying.add(task.flight.name);
      this.#agenda.look(monotonicMs() + ALIVE_MS);
      if (late || this.fence.passedSince(given_ms)) this.settle(handedBack(task, 0));
      // It is that late at least where it was handed over, whatever the clock is sure of.
      else this.#host.take(this, task, Math.max(now_ms, this.clock.now_ms()));
    });
  }

  /** No turn follows at once. */
  #failed(error: Error): false {
    this.#calls.doubt();
    this.#backlog.unparking.lost();
    this.flying.doubt();
    this.#agenda.failed();
    this.#host.failed(this.partition, error);
    return false;
  }

  /** Sets the timer to the earliest time at which a turn has something to do. */
  #arm(): void {
    const { failing, pause_until_ms } = this.#agenda;
    if (this.#running || pause_until_ms === Number.POSITIVE_INFINITY) return;
    let at_ms = Math.min(this.#agenda.next_ms(this.owned), this.#outcomes.wake_ms);
    if (this.claiming && failing && this.#hasWork()) at_ms = Math.min(at_ms, pause_until_ms);
    if (this.claiming) at_ms = Math.min(at_ms, this.#host.origins.nextProbeMs(this.partition));
    else at_ms = Math.min(at_ms, this.#calls.due_ms(this.#door, this.#host.offer_gap_ms));
    if (!this.assigned && !this.claiming && this.empty) return;
    at_ms = Math.max(at_ms, pause_until_ms);
    clearTimeout(this.#timer);
    if (at_ms < Number.POSITIVE_INFINITY) this.#timer = setTimeout(() => this.wake(), Math.max(0, at_ms - monotonicMs()));
  }
}
