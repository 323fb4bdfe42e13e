// What a fault is given: engines, receivers, a caller, thousands of calls in flight, and the judge.
import type { Client } from '../../test/helpers/api.ts';
import { api } from '../../test/helpers/api.ts';
import { type Engine, type EngineOptions, startEngine, TOKENS } from '../../test/helpers/engine.ts';
import { inFlight, metric } from '../../test/helpers/metrics.ts';
import { type ReceivedCall, type Receiver, startReceiver } from '../../test/helpers/receiver.ts';
import { until } from '../../test/helpers/redis.ts';
import { Chance } from '../../test/limiters/chance.ts';
import { Driver } from './driver.ts';
import type { Judgement } from './fault.ts';
import { type Evidence, judge } from './judge.ts';

const WORK = '/work-to-do';
const HELD = '/held';
/** Calls take this long, so that some are always under way. */
const WORK_MS = 20;
/** An outcome may wait this long, on a busy machine, before Redis knows it: whoever dies meanwhile has it called again. */
const UNTOLD_MS = 500;
const ARRIVAL_MS = 100;
/** As in callbacks.thread.ts, and a little more. */
const SNAPSHOT_MS = 1_200;
/** Who died twice with a thousand calls in flight has the last of them back after a minute (docs/decisions/0040). */
const QUIET_MS_MAX = 120_000;
const HELD_MS_MAX = 30_000;
const HELD_EACH = 50;
/** Wrong answers, and lines of each server, in what is told of a wait in vain. */
const TOLD = 20;
/** Room for a thousand calls to one origin. */
const ROOM = { SLUICE_CALLBACK_THREADS: '1', SLUICE_CONNECTIONS_PER_ORIGIN: '4096' };
/** In the short selection who died is missed sooner. */
const QUICK = { SLUICE_HOLDER_SILENCE: '3s', SLUICE_SWEEP_INTERVAL: '1s' };

/** What is not known of a call that another receiver heard. */
export const NOWHERE = {
  method: 'POST',
  path: '',
  headers: {},
  raw_headers: [],
  body: Buffer.alloc(0),
  attempt: 1,
  answered: true,
  gone: false,
} as const satisfies Omit<ReceivedCall, 'id' | 'at_ms'>;

export interface Held {
  /** Where they go. */
  path: string;
  /** Calls that wait for their answer, and whose caller is there. */
  count(): number;
  /** Answers them, and what comes later at once. */
  release(): void;
}

/** What a fault may cause; nothing where nothing is said. */
export interface Allowed {
  duplicates_max: number;
  lost_max?: number;
  failed_max?: number;
  /** Redis may have forgotten what it had acknowledged. */
  forgets?: true;
  /** Finished batches may be deleted before their time. */
  early?: true;
}

export class Scene {
  readonly chance: Chance;
  readonly receiver: Receiver;
  /** Of the calls that are held: an origin of its own has places of its own. */
  readonly slow: Receiver;
  readonly driver: Driver;
  /** Requests of the driver go to these. */
  readonly engines: Engine[] = [];
  /** The short selection: fewer tasks, shorter timers. */
  readonly quick: boolean;
  readonly #more: Record<string, number> = {};
  readonly #faults: string[] = [];
  readonly #elsewhere: ReceivedCall[] = [];
  #began_ms = 0;
  #over_ms = 0;

  private constructor(seed: number, quick: boolean, receiver: Receiver, slow: Receiver) {
    this.chance = new Chance(seed);
    this.quick = quick;
    this.receiver = receiver;
    this.slow = slow;
    this.driver = new Driver({
      urls: () => this.engines.map(({ url }) => url),
      target: receiver.at(WORK, { delay_ms: WORK_MS }),
      chance: this.chance,
      called: () => receiver.to(WORK).length,
      prefix: `seed-${seed}`,
    });
  }

  static async open(seed: number, quick: boolean): Promise<Scene> {
    const [receiver, slow] = await Promise.all([startReceiver(), startReceiver()]);
    return new Scene(seed, quick, receiver, slow);
  }

  /** Tasks that come before, during and after a fault. */
  get some(): number {
    return this.quick ? 400 : 2_000;
  }

  /** An engine with room for what is held; it takes requests of the driver unless `hidden`. */
  async engine(options: EngineOptions = {}, hidden: 'hidden' | 'taking' = 'taking'): Promise<Engine> {
    const env = { ...ROOM, ...(this.quick ? QUICK : {}), ...options.env };
    const engine = await startEngine({ ...options, env });
    if (hidden === 'taking') this.engines.push(engine);
    return engine;
  }

  /** Requests go there no more. */
  forget(engine: Engine): void {
    const at = this.engines.indexOf(engine);
    if (at !== -1) this.engines.splice(at, 1);
  }

  client(engine: Engine | undefined = this.engines[0]): Client {
    if (engine === undefined) throw new Error('no engine');
    return api(engine, TOKENS.acme);
  }

  /** So many tasks under way at once: resolves when the receiver has them all. */
  async hold(count: number): Promise<Held> {
    const target = this.slow.at(HELD, { hold: true });
    const tasks = Array.from({ length: HELD_EACH }, (_, n) => ({
      target,
      payload: n,
      retry: { max_retries: 5, backoff: 'fixed', delay: 0.1 },
    }));
    const wanted = this.slow.to(HELD).length + count;
    // The receiver is of this process and takes one connection a turn: on a busy machine the callers' work would leave it too few turns.
    this.driver.pause(true);
    await Promise.all(Array.from({ length: count / HELD_EACH }, () => this.driver.batch(tasks)));
    await this.slow.heard(HELD, wanted, HELD_MS_MAX);
    this.driver.pause(false);
    return { path: HELD, count: () => this.slow.held(HELD).length, release: () => this.slow.release(HELD) };
  }

  /** What this engine has of what is held, by its own count: callers wait until that has not changed for longer than it takes to be told. */
  async flying(engine: Engine): Promise<number> {
    this.driver.pause(true);
    let count = -1;
    let since_ms = performance.now();
    await until(
      async () => {
        const now = await inFlight(engine);
        if (now !== count) since_ms = performance.now();
        count = now;
        return performance.now() - since_ms > SNAPSHOT_MS;
      },
      HELD_MS_MAX,
      'a steady number of calls in flight',
    );
    this.driver.pause(false);
    return count;
  }

  /**
   * Calls that may be made again where who made them was struck at `struck_ms`: those without an answer, and those whose outcome may
   * not have been told. A busy machine can take half a second to bury a process. What the dead had written is still on its way, so this
   * waits a moment.
   */
  async atRisk(struck_ms = Date.now()): Promise<number> {
    await this.lasts(ARRIVAL_MS);
    return this.calls().filter((call) => !call.answered || call.at_ms > struck_ms - UNTOLD_MS).length;
  }

  /** The fault begins now. */
  begins(): void {
    this.#began_ms = Date.now();
    this.#over_ms = this.#began_ms;
  }

  /** The fault is over now: recovery counts from here. */
  over(): void {
    this.#over_ms = Date.now();
  }

  /** A moment, in real time: how long a fault lasts. */
  async lasts(ms: number): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, ms));
  }

  figure(name: string, value: number): void {
    this.#more[name] = value;
  }

  /** What has to be so, beside the books. */
  check(holds: boolean, what: string): void {
    if (!holds) this.#faults.push(what);
  }

  /** From sending a request to the first call of its work, for the callers' own tasks accepted since; the quantile `q`. */
  waited_ms(q: number, since_ms = 0): number {
    const core = (id: string): string => id.split('_')[1] ?? '';
    const sent = new Map(
      [...this.driver.books.values()]
        .filter((one) => one.id.startsWith('batch_') && one.sent_ms > since_ms)
        .map((one) => [core(one.id), one.sent_ms]),
    );
    const first = new Map<string, number>();
    for (const call of this.receiver.to(WORK)) {
      const sent_ms = sent.get(core(call.id));
      if (sent_ms !== undefined && !first.has(core(call.id))) first.set(core(call.id), call.at_ms - sent_ms);
    }
    const sorted = [...first.values()].toSorted((a, b) => a - b);
    return sorted[Math.floor(sorted.length * q)] ?? 0;
  }

  /** A counter of all engines that live. */
  async metric(name: string): Promise<number> {
    const values = await Promise.all(this.engines.map((engine) => metric(engine, name)));
    return values.reduce((sum, value) => sum + value, 0);
  }

  /** A call came to a receiver that is none of the scene's. */
  heard(id: string, at_ms = Date.now()): void {
    this.#elsewhere.push({ ...NOWHERE, id, at_ms });
  }

  calls(): ReceivedCall[] {
    return [...this.receiver.calls, ...this.slow.calls, ...this.#elsewhere];
  }

  /** What the callers saw so far and what the servers said last: where a wait was in vain, that tells why. */
  told(): string {
    const { accepted, refusals, wrong } = this.driver;
    const callers = {
      accepted,
      called: this.receiver.to(WORK).length,
      refusals: Object.fromEntries(refusals),
      wrong: wrong.slice(0, TOLD),
    };
    const servers = this.engines.map((engine) => engine.logs().slice(-TOLD).join('\n'));
    return [JSON.stringify(callers), ...servers].join('\n');
  }

  /** Ends the load and waits until all that was accepted has ended. */
  async quiet(): Promise<void> {
    await this.driver.stop();
    await judge(this.#evidence());
  }

  /** The same, and closes the books. */
  async judge(allowed: Allowed, more: Partial<Pick<Evidence, 'expected' | 'ours' | 'quiet_ms_max'>> = {}): Promise<Judgement> {
    await this.quiet();
    const { forgets = false, early = false } = allowed;
    const { example, states, ...books } = await judge({ ...this.#evidence(), forgets, early, ...more });
    // A batch that Redis has forgotten cannot be added to.
    const wrong = this.driver.wrong.filter((answer) => allowed.forgets !== true || !answer.includes('batch_not_found'));
    const faults = [...this.#faults, ...wrong];
    if (books.lost > (allowed.lost_max ?? 0)) faults.push(`${books.lost} lost, such as ${example}`);
    for (const name of ['uncalled', 'double_counted', 'drift'] as const) if (books[name] > 0) faults.push(`${name}: ${books[name]}`);
    if (states.failed > (allowed.failed_max ?? 0)) faults.push(`${states.failed} failed`);
    if (books.duplicates > allowed.duplicates_max)
      faults.push(`${books.duplicates} called twice, at most ${allowed.duplicates_max} may be`);
    const refused = Object.fromEntries([...this.driver.refusals].map(([seen, count]) => [`refused_${seen}`, count]));
    const failed = states.failed > 0 ? { failed: states.failed } : {};
    return {
      ...books,
      recovery_s: this.#recovery_s(),
      duplicates_max: allowed.duplicates_max,
      more: { ...this.#more, ...refused, ...failed, fault_s: (this.#over_ms - this.#began_ms) / 1_000 },
      faults,
    };
  }

  #evidence(): Evidence {
    const [engine] = this.engines;
    return { url: engine?.url ?? '', accepted: this.driver.books.values(), calls: this.calls(), quiet_ms_max: QUIET_MS_MAX };
  }

  #recovery_s(): number {
    const accepted = [...this.driver.books.values()];
    const core = (id: string): string => id.split('_')[1] ?? '';
    const before = new Set(accepted.filter(({ id, at_ms }) => id.startsWith('batch_') && at_ms < this.#began_ms).map(({ id }) => core(id)));
    const late = this.calls().filter(({ id }) => before.has(core(id)));
    const last_ms = Math.max(this.#over_ms, this.driver.refused_ms, ...late.map(({ at_ms }) => at_ms));
    return (last_ms - this.#over_ms) / 1_000;
  }
}
