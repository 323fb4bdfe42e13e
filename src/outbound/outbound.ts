// Outbound: makes HTTP calls to targets that nobody trusts. One call, one outcome, always within its deadline.
// Nothing is retried in here; who calls decides by the verdict.
import { type Clock, monotonicMs, systemClock } from '../base/clock.ts';
import { egressPolicy } from './addresses.ts';
import { Attempt, type Machine } from './attempt.ts';
import type { OutboundCall, Outcome, RunningCall } from './call.ts';
import { guardedConnectors } from './connector.ts';
import { Deadlines } from './deadlines.ts';
import { Pools } from './pools.ts';
import { Reading } from './reading.ts';
import { RequestWriter } from './request.ts';
import { type Lookup, Resolver } from './resolver.ts';
import { Signer } from './signer.ts';

export interface OutboundOptions {
  /** For `User-Agent: Sluice/<version>`. */
  version: string;
  allow_private: boolean;
  allow_cidrs: readonly string[];
  deny_cidrs: readonly string[];
  connections_per_origin_max: number;
  connections_max: number;
  /** Wall clock, for signatures and dates. */
  now?: Clock;
  /** Replaces the system's resolver. */
  lookup?: Lookup;
  /** Certificates (PEM) to trust beside Node's own. */
  ca?: string;
}

export interface OutboundStats {
  running: number;
  origins: number;
  connections: number;
  connections_free: number;
  names: number;
}

export class Outbound {
  readonly #machine: Machine;
  readonly #pools: Pools;
  readonly #resolver: Resolver;
  readonly #reading = new Reading(monotonicMs);

  /** Throws where a CIDR block cannot be read. */
  constructor(options: OutboundOptions) {
    const now = options.now ?? systemClock;
    const policy = egressPolicy(options);
    this.#resolver = new Resolver(monotonicMs, options.lookup);
    this.#pools = new Pools({
      connections_per_origin_max: options.connections_per_origin_max,
      connections_max: options.connections_max,
      policy,
      monotonic: monotonicMs,
      connectorFor: guardedConnectors(policy, this.#resolver, this.#reading, options.ca ?? null),
    });
    this.#machine = {
      monotonic: monotonicMs,
      now,
      deadlines: new Deadlines(monotonicMs),
      writer: new RequestWriter(now, new Signer(), options.version),
    };
  }

  /** `done` is called exactly once, never before this returns. The number of calls at a time is the caller's to bound. */
  call(call: OutboundCall, done: (outcome: Outcome) => void): RunningCall {
    const origin = this.#pools.origin(call.origin);
    const attempt = new Attempt(this.#machine, origin, call, done);
    origin.enter(attempt);
    attempt.letGo();
    return attempt;
  }

  /** So many calls to this origin begin in a moment: where they are many, connections are opened meanwhile. */
  expect(origin: string, calls: number): void {
    this.#pools.origin(origin).expect(calls);
  }

  /** Calls without an outcome yet, those that wait for a connection among them. */
  get running(): number {
    return this.#machine.deadlines.size;
  }

  /** Ends every call that runs. */
  abortAll(reason: 'shutdown' | 'cancelled'): void {
    for (const entry of this.#machine.deadlines.entries()) if (entry instanceof Attempt) entry.abort(reason);
  }

  /** Whether there are more answers than the thread can read in time. */
  get behind(): boolean {
    return this.#reading.behind;
  }

  /** Ends every running call with `shutdown` and closes all connections. */
  async close(): Promise<void> {
    this.#pools.closed = true;
    this.abortAll('shutdown');
    await this.#pools.close();
  }

  stats(): OutboundStats {
    return {
      running: this.running,
      origins: this.#pools.origins,
      connections: this.#pools.connections,
      connections_free: this.#pools.free,
      names: this.#resolver.names,
    };
  }
}
