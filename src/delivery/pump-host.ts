// What a pump and the thread that runs it know of each other.
import type { Slice } from '../store/outbox.ts';
import type { Claimed, GrantReply, Late, TickReply, TurnSettings } from '../store/partition.ts';
import type { Origins } from './origins.ts';
import type { Pump } from './pump.ts';

/** What a pump needs from the thread that runs it. */
export interface PumpHost {
  /** Takes up to `wanted` places for tasks in flight; at least `floor` are given, so that no partition starves. */
  reserve(pump: Pump, wanted: number, floor: number): number;
  /** Gives back places that no task took. */
  release(places: number): void;
  /** Takes up to so many of the places that notifications may have. */
  reserveNotes(wanted: number): number;
  releaseNotes(notes: number): void;
  readonly has_notes: boolean;
  /** Whether a single task that is handed over would find a place, and be called soon; if not, hungry pumps are woken when it would. */
  hasPlaces(): boolean;
  /** Between two offers of a partition. */
  readonly offer_gap_ms: number;
  /** Starts a task that came by itself. */
  take(pump: Pump, task: Claimed, now_ms: number): void;
  /** Whether the claim that is sent may bring a task at its last chance. */
  mayBringSuspect(pump: Pump): boolean;
  /** A claim brought these, or failed (null); until then few others may begin. */
  claimEnded(pump: Pump, tasks: readonly Claimed[] | null): void;
  /** A turn ended and left work to claim. */
  stillHungry(pump: Pump): void;
  /** More is there than was just claimed: `ready`, or parked for want of places for these origins. */
  overflows(pump: Pump, parked: readonly string[], ready: boolean): void;
  /** A helper found nothing more to claim and has nothing in flight; `parks`: a claim of his has parked some. */
  helped(pump: Pump, parks: boolean): void;
  origins: Origins;
  /** Starts tasks, each when its limiter lets it; each takes one reserved place until `pump.settle` names it. They were claimed at `now_ms` of the partition. */
  run(pump: Pump, tasks: readonly Claimed[], now_ms: number): void;
  ticked(reply: TickReply): void;
  granted(reply: GrantReply): void;
  /** Messages of this partition wait to be carried over; among them these. */
  relay(partition: number, lates?: readonly Late[]): void;
  /** Some of them, to be carried over at once. */
  carry(partition: number, slices: readonly Slice[]): void;
  /** Lanes are to be asked about what this partition has away. */
  sweep(partition: number): void;
  failed(partition: number, error: Error): void;
}

export interface PumpSettings extends TurnSettings {
  sweep_ms: number;
  /** Without an answer for this long, nothing more that was claimed here is started. */
  fence_ms: number;
}
