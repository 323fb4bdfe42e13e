// What partitions must know of messages after any sequence of steps, in plain data: the reference for outbox.model.test.ts.
import assert from 'node:assert/strict';
import type { Answer, Booked, Overdue, Received } from '../../src/store/outbox.ts';
import { type Held, laneOf, type Send } from '../helpers/outbox.ts';

export interface ModelSlice {
  destination: number;
  messages: string[];
}

/** One partition, both as a source and as a destination; plain data, so that a failover is the clone of an earlier one. */
export interface State {
  seq: number;
  outbox: Map<number, string[]>;
  away: Map<string, { wanted: string; seq: number; place: number }>;
  since: Map<string, number>;
  hw: Map<number, number>;
  lanes: Map<string, Map<string, number>>;
  /** `<source>><destination> <sequence>` of every message that it has ever written, and of those that it has applied, in their order. */
  sent: string[];
  applied: string[];
  /** References that it has ever handed over. */
  handed: Set<string>;
}

const AGAIN_MS_MAX = 3_600_000;
const ANSWER_MS_MAX = 1_000;

export class OutboxModel {
  now_ms = 0;
  readonly states: State[];

  constructor(partitions: number) {
    this.states = Array.from({ length: partitions }, () => ({
      seq: 0,
      outbox: new Map(),
      away: new Map(),
      since: new Map(),
      hw: new Map(),
      lanes: new Map(),
      sent: [],
      applied: [],
      handed: new Set(),
    }));
  }

  state(partition: number): State {
    return this.states[partition] ?? assert.fail(`partition ${partition}`);
  }

  append(source: number, sends: readonly Send[]): void {
    for (const [verb, lane, ref] of sends) {
      if (verb === 'bare') this.#put(source, lane, 'queue', `${this.now_ms * 1000} ${lane} ${ref}`);
      else this.#want(source, verb === 'hand' ? 'q' : 'r', `${lane} ${ref}`, null);
    }
  }

  /** All that waits, for each destination. */
  slices(source: number): ModelSlice[] {
    return [...this.state(source).outbox].map(([destination, messages]) => ({ destination, messages: [...messages] }));
  }

  receive(source: number, { destination, messages }: ModelSlice): Received {
    const state = this.state(destination);
    let applied = 0;
    for (const message of messages) {
      const [seq = '', kind, place, lane = '', ref = ''] = message.split(' ');
      if (Number(seq) <= (state.hw.get(source) ?? 0)) continue;
      const held = state.lanes.get(lane) ?? new Map<string, number>();
      state.lanes.set(lane, held);
      if (kind === 'release') held.delete(ref);
      else if (!held.has(ref)) held.set(ref, Number(place));
      if (held.size === 0) state.lanes.delete(lane);
      state.hw.set(source, Number(seq));
      state.applied.push(`${source}>${destination} ${seq}`);
      applied += 1;
    }
    return { mark: state.hw.get(source) ?? 0, done: messages.length, applied };
  }

  acknowledge(source: number, { destination, messages }: ModelSlice, mark: number): void {
    const state = this.state(source);
    const waiting = state.outbox.get(destination) ?? [];
    for (const message of messages) {
      if (!waiting.includes(message)) continue;
      const field = message.split(' ').slice(3).join(' ');
      if (state.away.has(field)) state.since.set(field, this.now_ms);
    }
    const left = waiting.filter((message) => !messages.includes(message));
    if (left.length > 0) state.outbox.set(destination, left);
    else state.outbox.delete(destination);
    state.seq = Math.max(state.seq, mark);
  }

  overdue(source: number, after_ms: number): Overdue[] {
    const state = this.state(source);
    const named: Overdue[] = [];
    for (const [field, since_ms] of state.since) {
      if (since_ms > this.now_ms - after_ms) continue;
      state.since.set(field, this.now_ms);
      const { seq } = state.away.get(field) ?? assert.fail(field);
      const destination = partitionOfField(field);
      const waits = state.outbox.get(destination)?.some((message) => message.startsWith(`${seq} `)) ?? false;
      if (!waits) named.push({ destination, field, sequence: String(seq) });
    }
    return named;
  }

  ask(references: readonly Overdue[]): Answer[] {
    return references.map(({ destination, field, sequence }) => {
      const [lane = '', ref = ''] = field.split(' ');
      return { field, sequence, known: this.state(destination).lanes.get(lane)?.has(ref) ?? false };
    });
  }

  book(source: number, answers: readonly Answer[], asked_ms: number): Booked {
    const state = this.state(source);
    const booked = { confirmed: 0, resent: 0, forgotten: 0 };
    if (this.now_ms - asked_ms >= ANSWER_MS_MAX) return booked;
    for (const { field, sequence, known } of answers) {
      const entry = state.away.get(field);
      if (entry === undefined || String(entry.seq) !== sequence) continue;
      if (entry.wanted === 'q' && known) {
        state.since.set(field, Math.floor(this.now_ms + Math.min(AGAIN_MS_MAX, this.now_ms - entry.place / 1000) + 0.5));
        booked.confirmed += 1;
      } else if (entry.wanted === 'r' && !known) {
        state.away.delete(field);
        state.since.delete(field);
        booked.forgotten += 1;
      } else {
        this.#want(source, entry.wanted, field, entry.wanted === 'q' ? entry.place : null);
        booked.resent += 1;
      }
    }
    return booked;
  }

  compare(partition: number, held: Held): void {
    const state = this.state(partition);
    const whole = (map: Map<number, number>): Record<string, string> => Object.fromEntries([...map].map(([key, n]) => [key, String(n)]));
    const expected: Held = {
      outbox: Object.fromEntries(state.outbox),
      away: Object.fromEntries([...state.away].map(([field, { wanted, seq, place }]) => [field, `${wanted} ${seq} ${place}`])),
      since: Object.fromEntries(state.since),
      hw: whole(state.hw),
      lanes: Object.fromEntries([...state.lanes].map(([lane, refs]) => [lane, inPlace(refs)])),
    };
    assert.deepEqual(held, expected, `partition ${partition}`);
  }

  #want(source: number, wanted: string, field: string, place: number | null): void {
    const state = this.state(source);
    const [lane = '', ref = ''] = field.split(' ');
    const seq = this.#next(source);
    const body = `${place ?? seq} ${lane} ${ref}`;
    this.#push(source, lane, seq, `${seq} ${wanted === 'q' ? 'queue' : 'release'} ${body}`);
    state.away.set(field, { wanted, seq, place: place ?? seq });
    state.since.set(field, this.now_ms);
    if (wanted === 'q') state.handed.add(field);
  }

  #put(source: number, lane: string, kind: string, body: string): void {
    const seq = this.#next(source);
    this.#push(source, lane, seq, `${seq} ${kind} ${body}`);
    this.state(source).handed.add(body.split(' ').slice(1).join(' '));
  }

  #next(source: number): number {
    const state = this.state(source);
    state.seq = Math.max(state.seq + 1, this.now_ms * 1000);
    return state.seq;
  }

  #push(source: number, lane: string, seq: number, message: string): void {
    const destination = partitionOfField(lane);
    const { outbox, sent } = this.state(source);
    outbox.set(destination, [...(outbox.get(destination) ?? []), message]);
    sent.push(`${source}>${destination} ${seq}`);
  }
}

function partitionOfField(field: string): number {
  const partition = [0, 1, 2, 3].find((p) => field.startsWith(laneOf(p).slice(0, 2)));
  return partition ?? assert.fail(field);
}

/** As Redis orders a zset: by score, then by bytes. */
function inPlace(refs: Map<string, number>): string[] {
  return [...refs].sort(([a, at], [b, bt]) => at - bt || (a < b ? -1 : 1)).map(([ref]) => ref);
}
