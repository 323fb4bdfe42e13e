// A callback thread's work: the pumps of the partitions it owns, one budget of calls in flight, one outbound client.
import { monotonicMs } from '../base/clock.ts';
import { groupBy } from '../base/group-by.ts';
import { ID_PREFIX, taskId } from '../base/id.ts';
import { CLAIM_MAX, OFFER_GAP_MS, OFFERS_PER_S_MAX } from '../base/limits.ts';
import { type LimitedLog, type Log, limitedLog } from '../base/log.ts';
import type { Service } from '../base/service.ts';
import { endsWithin, notBefore } from '../base/timing.ts';
import type { Outcome } from '../outbound/call.ts';
import type { Outbound } from '../outbound/outbound.ts';
import { startsIn } from '../store/claimed.ts';
import type { Hints } from '../store/hints.ts';
import { keys } from '../store/keys.ts';
import type { Slice } from '../store/outbox.ts';
import type { Claimed, GrantReply, Late, Settlement, TickReply } from '../store/partition.ts';
import type { RedisClient } from '../store/script.ts';
import type { Tracing } from '../tracing/attempts.ts';
import type { Since } from './fence.ts';
import { LateStarts, lateStart } from './late-starts.ts';
import type { DeliveryMeter } from './meter.ts';
import { type Notification, notificationOf } from './notification.ts';
import { Origins } from './origins.ts';
import { Places } from './places.ts';
import { Pump } from './pump.ts';
import type { PumpHost, PumpSettings } from './pump-host.ts';
import { type Company, Pumps } from './pumps.ts';
import type { Relayer } from './relayer.ts';
import { SigningKeys } from './signing-keys.ts';
import { Slots } from './slots.ts';
import { callsByOrigin, specOf } from './spec.ts';
import { Suspects } from './suspects.ts';
import { tracedNotification, tracedTask } from './traced.ts';
import { Turns } from './turns.ts';
import { Validity } from './validity.ts';
import { END_NAMES, handedBack, settlementOf, settlementOfExpired, settlementOfLost, settlementOfNotification } from './verdict.ts';

export interface ShardDeps {
  client: RedisClient;
  hints: Hints;
  outbound: Outbound;
  relayer: Pick<Relayer, 'relay' | 'carry' | 'sweep'>;
  company: Company;
  settings: PumpSettings;
  /** It takes single tasks as they come, and claims nothing. */
  express: boolean;
  in_flight_max: number;
  in_flight_per_origin_max: number;
  /** Waits between the tries of a notification. */
  notification_delays_ms: readonly number[];
  audit_ms: number;
  meter: DeliveryMeter;
  /** null: nothing is traced. */
  tracing: Tracing | null;
  log: Log;
}

/** Tasks whose account's signing keys could not be read come back after this long. */
const KEYS_RETRY_MS = 1_000;
/** What is left of a drain after running calls were aborted, for their settlements. */
const SETTLE_AFTER_ABORT_MS = 3_000;

export class CallbackShard implements Service, PumpHost {
  readonly name = 'callbacks';
  readonly #deps: ShardDeps;
  readonly #log: LimitedLog;
  readonly #pumps: Pumps;
  readonly #suspects = new Suspects();
  readonly #late_starts = new LateStarts();
  readonly #keys: SigningKeys;
  readonly #validity: Validity;
  readonly origins: Origins;
  readonly #places: Places;
  /** Somebody was told that there are none. */
  #short = false;
  readonly #turns = new Turns(() => this.#feed());
  #audit: NodeJS.Timeout | null = null;
  readonly #slots = new Slots();
  #draining = false;
  #brief = false;

  constructor(deps: ShardDeps) {
    this.#deps = deps;
    this.#log = limitedLog(deps.log);
    this.#keys = new SigningKeys(deps.client);
    this.#validity = new Validity(deps.client);
    this.#pumps = new Pumps((partition) => new Pump(partition, deps.client, deps.settings, this), deps.hints, deps.company, deps.express);
    this.#places = new Places(deps.in_flight_max);
    this.origins = new Origins(deps.in_flight_per_origin_max, {
      free: () => this.#places.left,
      behind: () => this.#turns.long || deps.outbound.behind,
    });
  }

  async start(): Promise<void> {
    this.#deps.hints.subscribe(keys.rotated(), (account_id) => this.#keys.rotated(account_id));
    this.#audit = setTimeout(() => void this.#auditAll(), this.#deps.audit_ms);
  }

  /** Takes over these partitions and lets go of all others; what is in flight of those is still settled. */
  assign(partitions: readonly number[]): void {
    if (this.#draining) return;
    this.#pumps.assign(partitions);
  }

  /** Another thread has more work in a partition than it can take; who has no more to do than a claim brings joins in. */
  help(partition: number, parked: readonly string[], ready: boolean): void {
    if (this.#draining || this.#turns.long || this.#deps.outbound.behind || this.#places.taken > CLAIM_MAX) return;
    this.#pumps.help(partition, parked, ready);
  }

  left(partition: number): void {
    this.#pumps.left(partition);
  }

  overflows(pump: Pump, parked: readonly string[], ready: boolean): void {
    this.#pumps.overflows(pump, parked, ready);
  }

  helped(pump: Pump, parks: boolean): void {
    this.#pumps.helped(pump, parks && this.origins.parkedIn(pump.partition) > 0);
  }

  /** Redis is short of memory: finished batches go early (`purge`), and no excerpts of answers are kept (`brief`). */
  setMemory({ purge, brief }: { purge: boolean; brief: boolean }): void {
    this.#brief = brief;
    this.#deps.settings.pressure = purge && !this.#deps.express;
    if (purge) for (const pump of this.#pumps) if (pump.owned) pump.bell(String(Math.ceil(pump.clock.now_ms())));
  }

  /** Claims nothing more, lets running calls end until the deadline, hands the rest back uncounted. */
  async stop(deadline_ms: number): Promise<void> {
    if (this.#draining) return;
    this.#draining = true;
    if (this.#audit !== null) clearTimeout(this.#audit);
    for (const pump of this.#pumps) pump.disown(true);
    const drained = Promise.all([...this.#pumps].map((pump) => pump.drained()));
    if (!(await endsWithin(drained, deadline_ms))) {
      this.#deps.outbound.abortAll('shutdown');
      for (const pump of this.#pumps) pump.wake();
      await endsWithin(drained, SETTLE_AFTER_ABORT_MS);
    }
    for (const pump of this.#pumps) pump.close();
    this.#slots.close();
  }

  /** Hints of this channel may have been lost. */
  heardAgain(channel: string): void {
    if (channel === keys.rotated()) this.#keys.rotated();
    this.#pumps.heardAgain(channel);
  }

  /** Hints of this channel are not heard now. */
  deaf(channel: string): void {
    if (channel === keys.rotated()) this.#keys.rotated();
    this.#pumps.deaf(channel);
  }

  reserve(pump: Pump, wanted: number, floor: number): number {
    return this.#places.reserve(pump, wanted, floor);
  }

  reserveNotes(wanted: number): number {
    return this.#places.reserveNotes(wanted);
  }

  releaseNotes(notes: number): void {
    this.#places.releaseNotes(notes);
  }

  get has_notes(): boolean {
    return this.#places.has_notes;
  }

  /** Calls under way. */
  get in_flight(): number {
    return this.#deps.outbound.running;
  }

  mayBringSuspect(pump: Pump): boolean {
    return this.#suspects.mayAsk(pump.flying);
  }

  claimEnded(pump: Pump, tasks: readonly Claimed[] | null): void {
    this.#suspects.answered(pump.flying, tasks);
    this.#places.claimed(pump);
    this.#turns.work();
  }

  stillHungry(pump: Pump): void {
    if (this.#places.mayClaim(pump.starving)) this.#turns.work();
  }

  release(places: number): void {
    this.#places.release(places);
    this.#turns.work();
  }

  /** Wakes the pumps that left work for want of places, once for all that become free in a turn of the event loop. */
  #feed(): void {
    // An express is hungry only where it had no places; what it offers otherwise has its time.
    if (this.#draining || (this.#deps.express && !this.#short)) return;
    this.#short = false;
    for (const pump of [...this.#pumps]) {
      if (this.#places.mayClaim(pump.starving) && pump.hungry()) pump.wake();
    }
  }

  hasPlaces(): boolean {
    const places = this.#places.plenty && !this.#draining && !this.#turns.long && !this.#deps.outbound.behind;
    this.#short ||= !places;
    return places;
  }

  get offer_gap_ms(): number {
    return Math.max(OFFER_GAP_MS, (this.#pumps.count * 1_000) / OFFERS_PER_S_MAX);
  }

  take(pump: Pump, task: Claimed, now_ms: number): void {
    if (!this.origins.hasRoom(task.flight.origin)) {
      this.#deps.meter.ended(END_NAMES.b, 0);
      return pump.settle(handedBack(task, 0));
    }
    this.#places.take();
    this.run(pump, [task], now_ms);
  }

  run(pump: Pump, tasks: readonly Claimed[], now_ms: number): void {
    const since = pump.fence.since(pump.clock.earliest_ms(now_ms));
    this.#places.began(tasks.length);
    if (tasks.length > 0) this.#turns.work();
    // A claim that brought nothing keeps its turn.
    if (tasks.length > 0) this.#pumps.fed(pump);
    for (const task of tasks) this.origins.began(task.flight.origin);
    for (const [wait_ms, together] of groupBy(tasks, (task) => startsIn(task, now_ms))) {
      if (wait_ms === 0) this.#start(pump, together, now_ms, since);
      else {
        notBefore(pump.clock.latest_ms(now_ms + wait_ms), () => this.#start(pump, together, pump.clock.now_ms(), since));
        // Connections are opened meanwhile.
        for (const [origin, calls] of callsByOrigin(together)) this.#deps.outbound.expect(origin, calls);
      }
    }
  }

  #start(pump: Pump, tasks: readonly Claimed[], now_ms: number, since: Since): void {
    const unsigned: Claimed[] = [];
    for (const task of tasks) {
      const secrets = this.#keys.get(task.account_id);
      if (secrets !== null) this.#begin(pump, task, secrets, now_ms, since);
      else unsigned.push(task);
    }
    for (const [account_id, waiting] of groupBy(unsigned, (task) => task.account_id)) {
      void this.#runSigned(pump, account_id, waiting, since);
    }
  }

  async #runSigned(pump: Pump, account_id: string, tasks: readonly Claimed[], since: Since): Promise<void> {
    let secrets: readonly Buffer[];
    try {
      secrets = await this.#keys.read(account_id);
    } catch (error) {
      this.failed(pump.partition, error as Error);
      for (const task of tasks) this.#handBack(pump, task, KEYS_RETRY_MS);
      return;
    }
    for (const task of tasks) this.#begin(pump, task, secrets, pump.clock.now_ms(), since);
  }

  #begin(pump: Pump, task: Claimed, secrets: readonly Buffer[], now_ms: number, since: Since, again = false): void {
    if (this.#draining || !pump.fence.holds(since)) return this.#handBack(pump, task, 0);
    const wait_ms = this.#suspects.wait_ms(pump.flying, task);
    if (wait_ms > 0) return this.#handBack(pump, task, wait_ms);
    if (task.of !== null) return this.#beginNotification(pump, task, secrets, since);
    const spec = specOf(task.head);
    if (spec.valid_until_ms !== null && now_ms >= spec.valid_until_ms) return this.#end(pump, settlementOfExpired(task, now_ms), null);
    if (!again) this.#deps.meter.lag(Math.max(0, now_ms - task.due_ms));
    const { limit } = task.flight;
    // A limiter of rates counts it as of the grant, unless that was a while ago.
    const counted = limit !== null && limit.kind !== 'c' ? limit : null;
    const age_ms = (): number => task.granted_age_ms + monotonicMs() - since.claimed_ms;
    let hold_ms = 0;
    const span = tracedTask(this.#deps.tracing, task, spec, pump.clock.now_ms(), since.claimed_ms);
    const running = this.#deps.outbound.call(
      {
        origin: spec.origin,
        path: spec.path,
        method: spec.method,
        headers: span?.headers ?? spec.headers,
        body: task.payload,
        account_id: task.account_id,
        webhook_id: taskId(task.flight.core, task.index),
        attempt: task.attempt,
        batch_id: task.single ? null : ID_PREFIX.batch + task.flight.core,
        timeout_ms: spec.timeout_ms,
        secrets,
        sent: () => {
          if (!pump.fence.holds(since)) hold_ms = Number.POSITIVE_INFINITY;
          else if (counted) hold_ms = this.#late_starts.wait_ms(counted, age_ms());
          return hold_ms === 0;
        },
        // Told by when it was written: on a busy machine a thread may stand still in between.
        written: counted ? () => pump.late(lateStart(counted, age_ms())) : undefined,
      },
      (outcome) => {
        if (slot !== null) this.#slots.left(slot);
        if (outcome.error?.code === 'stale' && hold_ms < Number.POSITIVE_INFINITY) {
          return notBefore(monotonicMs() + hold_ms, () => this.#begin(pump, task, secrets, pump.clock.now_ms(), since, true));
        }
        const told = this.#brief ? { ...outcome, excerpt: null } : outcome;
        const now = { now_ms: pump.clock.now_ms(), dice: Math.random() };
        span?.ended(outcome, now.now_ms);
        const settle = (invalid_ms: number | null) => settlementOf(task, spec, told, { ...now, invalid_ms });
        this.#validity.settle(limit, spec, settle, (settlement) => this.#end(pump, settlement, outcome));
      },
    );
    const slot = limit?.kind === 'c' ? this.#slots.taken({ call: running, pump, since }) : null;
  }

  #beginNotification(pump: Pump, task: Claimed, secrets: readonly Buffer[], since: Since): void {
    const notification = notificationOf(task);
    if (notification === null) return this.#endNotification(pump, null, settlementOfLost(task, pump.clock.now_ms()), null);
    const span = tracedNotification(this.#deps.tracing, task, notification, pump.clock.now_ms());
    const call = { ...notification, headers: span?.headers ?? notification.headers, sent: () => pump.fence.holds(since) };
    this.#deps.outbound.call({ ...call, attempt: task.attempt, secrets }, (outcome) => {
      const brief = this.#brief || (notification.event === 'on_progress' && outcome.verdict === 'success');
      const told = brief ? { ...outcome, excerpt: null } : outcome;
      const now = { now_ms: pump.clock.now_ms(), dice: Math.random() };
      span?.ended(outcome, now.now_ms);
      const settlement = settlementOfNotification(task, this.#deps.notification_delays_ms, told, now);
      this.#endNotification(pump, notification, settlement, outcome);
    });
  }

  #endNotification(pump: Pump, notification: Notification | null, settlement: Settlement, outcome: Outcome | null): void {
    const lag_ms = notification === null ? 0 : Math.max(0, pump.clock.now_ms() - notification.at_ms);
    if (notification !== null) this.#deps.meter.notified(notification.event, END_NAMES[settlement.verdict], lag_ms);
    this.#leave(pump, settlement, outcome, true);
  }

  #handBack(pump: Pump, task: Claimed, delay_ms: number): void {
    if (task.of !== null) return this.#leave(pump, handedBack(task, delay_ms), null, true);
    this.#end(pump, handedBack(task, delay_ms), null);
  }

  #end(pump: Pump, settlement: Settlement, outcome: Outcome | null): void {
    this.#deps.meter.ended(END_NAMES[settlement.verdict], outcome === null ? 0 : outcome.duration_ms);
    this.#leave(pump, settlement, outcome, false);
  }

  /** `outcome` is null where there was no call. */
  #leave(pump: Pump, settlement: Settlement, outcome: Outcome | null, note: boolean): void {
    this.#places.ended();
    const failure = outcome === null ? 'shutdown' : (outcome.error?.code ?? null);
    this.origins.ended(settlement.flight.origin, failure, outcome === null ? 0 : outcome.sent_for_ms);
    pump.settle(settlement);
    if (note) this.releaseNotes(1);
    this.release(1);
  }

  ticked(reply: TickReply): void {
    this.#deps.meter.ticked(reply);
  }

  granted(reply: GrantReply): void {
    this.#deps.meter.granted(reply);
  }

  relay(partition: number, lates: readonly Late[] = []): void {
    void this.#deps.relayer.relay(partition).then(() => this.#late_starts.heard(lates));
  }

  carry(partition: number, slices: readonly Slice[]): void {
    void this.#deps.relayer.carry(partition, slices);
  }

  sweep(partition: number): void {
    void this.#deps.relayer.sweep(partition);
  }

  failed(partition: number, error: Error): void {
    this.#log.warn({ err: error, partition }, 'a turn failed and will be repeated');
  }

  /** Every few seconds, what Redis has in flight here is held against what is. */
  async #auditAll(): Promise<void> {
    const began_ms = monotonicMs();
    for (const pump of this.#pumps) {
      if (this.#draining) return;
      if (pump.flying.quiet) continue;
      try {
        const count = await pump.audit();
        if (count > 0) this.#deps.meter.handed_back(count);
      } catch (error) {
        this.failed(pump.partition, error as Error);
      }
    }
    if (!this.#draining)
      this.#audit = setTimeout(() => void this.#auditAll(), Math.max(0, this.#deps.audit_ms - (monotonicMs() - began_ms)));
  }
}
