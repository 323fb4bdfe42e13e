// One partition's machine, as one thread turns it.
//
//        bell, due time, capacity, outcomes
//                     │
//                     ▼
//   idle ──▶ turn: settle + tick + claim + grant in one round trip ──▶ start what was claimed ──▶ idle
//                     │                                              │
//                     └── error: the same again after a back-off     └── outcome ──▶ buffered for the next turn
//
// There is one turn at a time. It runs when 128 outcomes are buffered or the first is 2 ms old (8 while others are under way that
// may keep it company), when something is due by the partition's clock, when the bell rings, and every few seconds in any case, which repairs a lost bell.
// An error leaves everything as it was: outcomes stay buffered, and a claim is repeated under its number, since a lost
// reply means that it may have happened.
import { monotonicMs } from '../base/clock.ts';
import { CLAIM_MAX } from '../base/limits.ts';
import {
  answersOf,
  type ClaimReply,
  type ClaimRequest,
  type GrantReply,
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
import { Calls } from './calls.ts';
import { Fence } from './fence.ts';
import { InFlight } from './in-flight.ts';
import { Looks } from './looks.ts';
import { Outcomes } from './outcomes.ts';
import { PartitionClock } from './partition-clock.ts';
import type { PumpHost, PumpSettings } from './pump-host.ts';
import { Unparking } from './unparking.ts';
import { handedBack } from './verdict.ts';

/** A partition that never starves has this many places in flight whatever the others do. */
const PLACES_MIN = 16;
/** Who has work in a partition says at least this often that he lives; see lua/partition/tick.lua. */
const ALIVE_MS = 2_000;
/** A claim that brought less leaves nothing behind that calls for help, such as the probe of a broken origin. */
const HELP_MIN = 32;
/** While the probe of a broken origin is under way elsewhere, it is asked for again after this. */
const PROBE_WAIT_MS = 250;

export class Pump {
  readonly partition: number;
  readonly #client: RedisClient;
  readonly #settings: PumpSettings;
  readonly #host: PumpHost;
  readonly #flying = new InFlight();
  readonly #outcomes = new Outcomes(() => this.#flying.count);
  /** An owner works on whatever the partition needs; a helper claims until nothing is left to claim. */
  #role: 'owner' | 'helper' | null = null;
  #ready = true;
  /** Work came since the last claim was sent: that one's reply does not tell of it. */
  #rung = false;
  /** Notifications wait for a place of theirs. */
  #notes_ready = false;
  readonly #calls = new Calls();
  readonly #looks: Looks;
  readonly clock = new PartitionClock();
  readonly #agenda = new Agenda(this.clock);
  readonly fence: Fence;
  #running = false;
  #again = false;
  #timer: NodeJS.Timeout | undefined;
  readonly #unparking = new Unparking();
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
    this.#ready = true;
    this.#unparking.everything();
    this.#agenda.everything();
    this.wake();
  }

  /** Claims here beside the owner, as long as there is something to claim. */
  help(): void {
    if (this.claiming) return;
    this.#role = 'helper';
    if (this.empty) this.#agenda.clear();
    this.#ready = true;
    this.wake();
  }

  /** Claims nothing more; what is in flight is still settled. `ending`: for good, and an offer is taken back where that can be done at once. */
  disown(ending = false): void {
    this.#role = null;
    if (ending) this.#calls.end();
    if (this.#calls.offered) this.wake();
  }

  get owned(): boolean {
    return this.#role === 'owner';
  }

  get claiming(): boolean {
    return this.#role !== null;
  }

  /** Whether nothing is in flight, nothing waits to be settled and no offer to be taken back. */
  get empty(): boolean {
    return this.#flying.count === 0 && this.#outcomes.size === 0 && !this.#running && (this.owned || !this.#calls.offered);
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
    else if (message === '0') this.#found();
    else this.#agenda.dueAt(Number(message));
    this.#agenda.look(this.#looks.heard_ms());
    this.wake();
  }

  /** A task of this partition was handed over, to this pump or to another one. */
  handed(message: string): void {
    if (this.#calls.heard(message, this.#settings.holder)) this.#takeHanded();
  }

  /** Others came or went: one who is gone may have left work here, though this partition was not his. */
  glance(): void {
    this.#agenda.look();
    this.wake();
  }

  /** A helper has left, and what it knew to be parked. */
  left(): void {
    this.#unparking.everything();
    this.#found();
    this.wake();
  }

  /** Bells may have been lost, and a Redis that died or was replaced its latest writes with them: looks for itself. */
  look(): void {
    this.#found();
    this.#flying.doubt();
    this.#calls.doubt();
    this.glance();
  }

  /** Places have become free: goes on where work was left for want of them. */
  hungry(): boolean {
    return this.claiming && !this.#running && monotonicMs() >= this.#agenda.pause_until_ms && this.#hasWork();
  }

  /** Whether it has so little in flight that it gets places whatever the others have. */
  get starving(): boolean {
    return this.#flying.count < PLACES_MIN;
  }

  /** Whether the next task that comes might be taken at once. */
  get #idling(): boolean {
    return !this.#hasWork() && this.#host.has_places;
  }

  #hasWork(): boolean {
    return (
      this.#ready ||
      (this.#notes_ready && this.#host.has_notes) ||
      this.#unparking.named > 0 ||
      this.#host.origins.hasUnparkable(this.partition)
    );
  }

  /** What became of a task that was started. It counts as in flight until Redis has answered. */
  settle(settlement: Settlement): void {
    const changed = this.#outcomes.push(settlement);
    if (this.#outcomes.full) this.wake();
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

  /** Whether an audit could find nothing. */
  get quiet(): boolean {
    return this.#flying.quiet;
  }

  /** Hands back what Redis thinks is in flight here and nobody runs; returns how many ranges. */
  audit(): Promise<number> {
    const active = () => readActive(this.#client, this.partition, this.#settings.holder);
    return this.#flying.audit(active, (flight, index) => this.settle({ flight, index, verdict: 'b', delay_ms: 0, result: '' }));
  }

  async #turns(): Promise<void> {
    this.#running = true;
    let again: boolean;
    do {
      this.#again = false;
      again = await this.#turn().catch((error: unknown) => this.#failed(error instanceof Error ? error : new Error(String(error))));
    } while (again || this.#again);
    this.#running = false;
    this.#takeHanded();
    if (this.empty) {
      for (const done of this.#idle.splice(0)) done();
      if (this.#role === 'helper' && !this.#hasWork()) return this.#host.helped(this);
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
    const { tick, due, grant: ask } = this.#agenda.at(began_ms);
    const places = this.claiming && (due || this.#hasWork()) ? this.#host.reserve(this, CLAIM_MAX, PLACES_MIN - this.#flying.count) : 0;
    const grant = this.owned && ask;
    const lates = this.#outcomes.takeLates();
    const nothing_left = (settlements.length > 0 || this.#calls.withdrawn) && this.#idling;
    const { retract, offer } = this.#calls.turn(places > 0, this.owned, this.#unparking.all, nothing_left);
    if (settlements.length === 0 && !tick && places === 0 && !grant && lates.length === 0 && !retract && offer === null) return false;
    this.#agenda.took({ tick, grant });
    const notes = places > 0 ? this.#host.reserveNotes(places) : 0;
    const reply = await turn(this.#client, this.partition, this.#settings, {
      settlements,
      tick,
      // A claim of no places brings what came of an offer that is taken back, and nothing else.
      claim: places > 0 || retract ? this.#claimRequest(places, notes) : null,
      grant,
      lates,
      retract,
      offer,
    }).finally(() => {
      if (places > 0) this.#host.claimEnded(this);
    });
    const { settled, tick: ticked, claimed, granted, told, error } = answersOf(reply);
    if (error === null) this.fence.answered(began_ms);
    for (const one of [settled, ticked, claimed, granted]) if (one !== null) this.clock.heard(one.now_ms, began_ms);
    if (settled !== null) this.#settled(settlements, settled);
    else this.#outcomes.putBack(settlements);
    if (ticked !== null) this.#ticked(ticked, grant);
    this.#host.releaseNotes(notes - (claimed?.tasks.filter(({ of }) => of !== null).length ?? 0));
    if (claimed !== null) this.#claimed(claimed, places);
    else this.#host.release(places);
    if (granted !== null) this.#granted(granted);
    else if (grant) this.#agenda.askLimiters();
    if (told === null) this.#outcomes.putBackLates(lates);
    const carried = granted !== null && granted.slices.length > 0;
    if (carried) this.#host.carry(this.partition, this.clock.dated(granted.slices));
    const messages = settled?.messages || ticked?.messages || claimed?.messages || told || (granted?.messages && !carried);
    if (messages) this.#host.relay(this.partition, told === null ? [] : lates);
    if (error !== null) return this.#failed(error);
    this.#agenda.answered();
    // More to claim is asked for in turn with the other partitions: the host feeds those that are hungry.
    const offers = this.owned && this.#calls.withdrawn && this.#idling;
    return this.#outcomes.full || ticked?.more === true || granted?.more === true || offers;
  }

  #claimRequest(places: number, notes: number): ClaimRequest {
    this.#flying.doubt();
    this.#rung = false;
    const { origins } = this.#host;
    const unpark = places > 0 ? this.#unparking.ask(origins, this.partition) : [];
    return { call_no: this.#calls.number, budget: places, room: origins.room(), unpark, rooms: origins.rooms(unpark), notes };
  }

  #settled(settlements: readonly Settlement[], reply: SettleReply): void {
    const left = new Set(reply.left);
    let again = false;
    for (const settlement of settlements.filter((one) => !left.has(one))) {
      this.#flying.landed(settlement.flight.name);
      again ||= settlement.delay_ms === 0 && !isFinal(settlement.verdict);
    }
    this.#outcomes.putBack(reply.left);
    if (again || reply.ready) this.#ready = true;
    this.#agenda.dueAt(reply.first_due_ms);
  }

  #found(): void {
    this.#ready = true;
    this.#rung = true;
  }

  #ticked(reply: TickReply, granting: boolean): void {
    const sweep_ms = this.#looks.wait_ms(this.#flying.count > 0 || reply.ready, reply.empty);
    const wait_ms = reply.next_ms === 0 ? sweep_ms : reply.next_ms - reply.now_ms;
    const due_ms = reply.more ? 0 : monotonicMs() + Math.min(Math.max(wait_ms, 0), sweep_ms);
    this.#agenda.look(due_ms);
    this.#agenda.dueAt(reply.next_ms);
    // Handed over, and not heard: the claim of that number brings it, or an audit finds it where that has passed.
    if (reply.ready || (this.#flying.missed(reply.mine) && this.#calls.offered)) this.#ready = true;
    if (reply.lanes && !granting) this.#agenda.askLimiters();
    if (reply.away) this.#host.sweep(this.partition);
    // Parked behind our back: by another owner who has left, or by a claim of ours that ran after it was given up.
    if (reply.parked > this.#host.origins.parkedIn(this.partition) + this.#unparking.named) {
      this.#unparking.everything();
      this.#ready = true;
    }
    this.#host.ticked(reply);
  }

  #granted(reply: GrantReply): void {
    // A bell that rang meanwhile stands.
    if (reply.more) this.#agenda.askLimiters();
    else this.#agenda.grantAt(reply.next_ms);
    this.#host.granted(reply);
  }

  #claimed(reply: ClaimReply, places: number): void {
    this.#calls.answered(reply.tasks.length);
    this.#unparking.answered(this.#host.origins, this.partition, reply.parked);
    this.#agenda.dueAt(reply.first_due_ms);
    const { tasks } = reply;
    this.#ready = reply.more || tasks.length >= places || this.#unparking.all || this.#rung;
    this.#notes_ready = reply.more_notes;
    for (const { flight } of tasks) this.#flying.add(flight.name);
    if (tasks.length > 0) this.#agenda.look(monotonicMs() + ALIVE_MS);
    // A claim rounds up to whole pages, so it may bring a few more than were reserved.
    this.#host.release(places - tasks.length);
    this.#host.run(this, tasks, reply.now_ms);
    if (this.owned && tasks.length >= HELP_MIN && (reply.more || reply.parked.length > 0)) this.#host.overflows(this);
  }

  /** Starts what was handed over. While a claim is under way its answer may bring that, too. */
  #takeHanded(): void {
    if (this.#running) return;
    this.#calls.take(this.#flying, ({ task, now_ms }, late) => {
      const given_ms = this.clock.earliest_ms(now_ms);
      // Where others are in flight, that this one was called does not mean that those were heard of.
      if (this.#flying.count === 0) this.fence.answered(given_ms);
      this.#flying.add(task.flight.name);
      this.#agenda.look(monotonicMs() + ALIVE_MS);
      if (late || this.fence.passedSince(given_ms)) this.settle(handedBack(task, 0));
      // It is that late at least where it was handed over, whatever the clock is sure of.
      else this.#host.take(this, task, Math.max(now_ms, this.clock.now_ms()));
    });
  }

  /** No turn follows at once. */
  #failed(error: Error): false {
    this.#calls.doubt();
    this.#unparking.lost();
    this.#flying.doubt();
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
    const probe_ms = this.claiming ? this.#host.origins.nextProbeMs(this.partition) : null;
    if (probe_ms !== null) at_ms = Math.min(at_ms, Math.max(probe_ms, monotonicMs() + PROBE_WAIT_MS));
    at_ms = Math.max(at_ms, pause_until_ms);
    if (!this.claiming && this.empty) return;
    clearTimeout(this.#timer);
    if (at_ms < Number.POSITIVE_INFINITY) this.#timer = setTimeout(() => this.wake(), Math.max(0, at_ms - monotonicMs()));
  }
}
