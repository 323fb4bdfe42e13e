// What there is to claim in a partition, as far as its pump knows.
import type { ClaimReply, ClaimRequest } from '../store/partition.ts';
import type { Origins } from './origins.ts';
import { Unparking } from './unparking.ts';

export class Backlog {
  readonly unparking = new Unparking();
  /** Some may be ready. Who is new here is told by whoever gave him the partition, or called him. */
  #ready = false;
  /** Work came since the last claim was sent: that one's reply does not tell of it. */
  #rung = false;
  /** Notifications wait for a place of theirs. */
  #notes_ready = false;
  /** A claim ended where it met a task at its last chance, and none that asked has come to it since: others may be in front of it, too. */
  suspects = false;
  /** A claim of this pump has parked some, which may be there still. */
  parks = false;

  /** Nothing is known of it, nor of what others parked. */
  everything(): void {
    this.#ready = true;
    this.unparking.everything();
  }

  /** Some came, or may have. */
  found(): void {
    this.#ready = true;
    this.#rung = true;
  }

  /** A reply tells of some. */
  told(): void {
    this.#ready = true;
  }

  /** So many origins are parked; more than are known were parked behind our back: by an owner who has left, or by a claim of ours that ran after it was given up. */
  counted(origins: Origins, partition: number, parked: number): void {
    if (parked > origins.parkedIn(partition) + this.unparking.named) this.everything();
  }

  /** Another thread has parked work for these origins and tells of it, and perhaps of what is `ready`. */
  passed(origins: Origins, partition: number, parked: readonly string[], ready: boolean): void {
    for (const origin of parked) origins.parked(origin, partition);
    if (ready) this.found();
  }

  /** A helper has left, and what it knew to be parked. */
  left(): void {
    this.found();
    this.unparking.left();
  }

  /** A claim is sent; returns what it says of origins. Without places it brings nothing of this, and lets go of nothing that was parked. */
  ask(origins: Origins, partition: number, places: number): Pick<ClaimRequest, 'room' | 'unpark' | 'rooms'> {
    this.#rung = false;
    const unpark = places > 0 ? this.unparking.ask(origins, partition) : [];
    return { room: origins.room(), unpark, rooms: origins.rooms(unpark) };
  }

  /** A claim was answered. */
  answered(origins: Origins, partition: number, reply: ClaimReply): void {
    this.unparking.answered(origins, partition, reply.parked);
    if (reply.parked.length > 0) this.parks = true;
    this.#ready = reply.more || this.unparking.all || this.#rung;
    this.#notes_ready = reply.more_notes;
    if (reply.suspects === 1) this.suspects = true;
    else if (reply.suspects === 2 || !reply.more) this.suspects = false;
  }

  /** Whether there is any; `notes`: notifications would find a place. */
  has(origins: Origins, partition: number, notes: boolean): boolean {
    return this.#ready || (this.#notes_ready && notes) || this.unparking.named > 0 || origins.hasUnparkable(partition);
  }
}
