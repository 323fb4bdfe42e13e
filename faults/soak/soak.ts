// Hours in short: load at 60 % of what this machine takes, a fault a minute, what ended judged as the rows of the matrix are, and the
// memory of all that stays watched.
import { startKillableRedis } from '../../test/engine/killable-redis.ts';
import { type Engine, type EngineOptions, startEngine } from '../../test/helpers/engine.ts';
import { startProxy } from '../../test/helpers/proxy.ts';
import { Chance } from '../../test/limiters/chance.ts';
import { type Accepted, Driver } from '../lib/driver.ts';
import { judge } from '../lib/judge.ts';
import { rssMb, type Sample, slopeMbPerH } from '../lib/memory.ts';
import { CallLog } from './log.ts';
import { type Broken, WAYS } from './ways.ts';

export interface Soaked {
  seed: number;
  minutes: number;
  /** Tasks a second: what was taken when nothing was held back, and what was sent. */
  capacity_per_s: number;
  load_per_s: number;
  faults_made: number;
  accepted: number;
  lost: number;
  uncalled: number;
  duplicates: number;
  /** Called or unheard of when something was broken. */
  duplicates_max: number;
  double_counted: number;
  drift: number;
  failed: number;
  /** From the end of a fault to the last request refused; of all faults the longest. */
  recovery_s_max: number;
  refused: Record<string, number>;
  reconciled: number;
  /** After the first part of the time: what it came to, and MiB an hour. */
  memory: Record<string, { mb: number; mb_per_h: number }>;
  /** Records of Idempotency-Keys, kept for 24 h, are part of what Redis holds: MiB an hour of them. */
  idempotency_mb_per_h: number;
  /** What is not as it has to be. */
  faults: string[];
}

const SHARE = 0.6;
const CALIBRATE_MS = 10_000;
const CALIBRATE_SHORT_MS = 5_000;
/** A soak this short has faults closer together. */
const SHORT_MINUTES = 5;
const FAULT_EACH_MS = 60_000;
const FAULT_EACH_SHORT_MS = 15_000;
const SAMPLE_MS = 2_000;
/** Then nobody adds to it any more, however long Redis was away. */
const RIPE_MS = 45_000;
const JUDGE_EACH_MS = 5_000;
/** Finished batches are deleted: Redis holds as much after an hour as after five minutes. */
const RETENTION_S = 180;
const WARM_MS = 300_000;
const WARM_SHARE = 0.4;
const QUIET_MS_MAX = 60_000;
const UNHEARD_MS = 100;
const ENV = { SLUICE_CALLBACK_THREADS: '1', SLUICE_RETENTION: `${RETENTION_S}s` };

export async function soak(minutes: number, seed: number, say: (line: string) => void): Promise<Soaked> {
  const run = new Run(minutes, seed, say);
  await run.open();
  return run.soak();
}

class Run {
  readonly #minutes: number;
  readonly #short: boolean;
  readonly #say: (line: string) => void;
  readonly #chance: Chance;
  readonly #log = new CallLog();
  readonly #driver: Driver;
  readonly #engines: Engine[] = [];
  readonly #memory = new Map<string, Sample[]>();
  readonly #result: Soaked;
  #broken: Broken | null = null;
  #over_ms = 0;

  constructor(minutes: number, seed: number, say: (line: string) => void) {
    this.#minutes = minutes;
    this.#short = minutes < SHORT_MINUTES;
    this.#say = say;
    this.#chance = new Chance(seed);
    this.#driver = new Driver({
      urls: () => this.#engines.map(({ url }) => url),
      target: '',
      chance: this.#chance,
      called: () => this.#log.tasks,
      prefix: `soak-${seed}`,
    });
    this.#result = emptyResult(seed, minutes);
  }

  async open(): Promise<void> {
    await this.#log.listen();
    this.#driver.aim(this.#log.url);
    const redis = await startKillableRedis({ keeps: 'second' });
    const proxy = await startProxy({ path: redis.path });
    const options: EngineOptions = { redis_url: `redis://127.0.0.1:${proxy.port}`, env: ENV };
    const stays = await startEngine({ redis_url: redis.url, env: ENV });
    let fragile = await startEngine(options);
    this.#engines.push(stays, fragile);
    this.#broken = {
      redis,
      proxy,
      stays,
      fragile: () => fragile,
      replace: async (first) => {
        this.#engines.splice(1, 1);
        await first(fragile);
        fragile = await startEngine(options);
        this.#engines.push(fragile);
      },
      lasts,
    };
  }

  async soak(): Promise<Soaked> {
    const broken = this.#broken;
    if (broken === null) throw new Error('not open');
    const result = this.#result;
    await this.#calibrate();
    const began_ms = Date.now();
    const end_ms = began_ms + this.#minutes * 60_000;
    const sampling = setInterval(() => void this.#sample(broken), SAMPLE_MS);
    const judging = this.#judgeUntil(() => Date.now() >= end_ms);
    await this.#breakUntil(broken, end_ms);
    clearInterval(sampling);
    await judging;
    await this.#driver.stop();
    await this.#judge([...this.#driver.books.values()]);
    this.#drift();
    result.accepted = this.#driver.accepted;
    result.load_per_s = Math.round(this.#driver.accepted / ((Date.now() - began_ms) / 1_000));
    result.refused = Object.fromEntries(this.#driver.refusals);
    result.reconciled = await this.#reconciled();
    this.#remember(began_ms);
    result.idempotency_mb_per_h = await this.#idempotency(broken, (Date.now() - began_ms) / 3_600_000);
    this.#verdict();
    return result;
  }

  async #calibrate(): Promise<void> {
    this.#driver.pace(null);
    await this.#driver.more(1_000);
    const [tasks, from_ms] = [this.#driver.accepted, performance.now()];
    await lasts(this.#short ? CALIBRATE_SHORT_MS : CALIBRATE_MS);
    const per_s = ((this.#driver.accepted - tasks) * 1_000) / (performance.now() - from_ms);
    this.#driver.pace(SHARE * per_s);
    this.#result.capacity_per_s = Math.round(per_s);
    this.#say(`${Math.round(per_s)} tasks a second at most; ${Math.round(SHARE * per_s)} from here on`);
  }

  /** Each way once, in an order of chance, and then again. */
  async #breakUntil(broken: Broken, end_ms: number): Promise<void> {
    const each_ms = this.#short ? FAULT_EACH_SHORT_MS : FAULT_EACH_MS;
    let order: number[] = [];
    for (let next_ms = Date.now() + each_ms / 2; next_ms < end_ms - each_ms / 4; next_ms += each_ms) {
      await lasts(Math.max(0, next_ms - Date.now()));
      this.#recovery();
      if (order.length === 0) order = WAYS.map((_, i) => i);
      const [i = 0] = order.splice(this.#chance.int(0, order.length - 1), 1);
      const way = WAYS[i];
      if (way === undefined) continue;
      const mb = [...this.#memory].map(([name, samples]) => `${name} ${Math.round(samples.at(-1)?.mb ?? 0)}`).join(', ');
      this.#say(`${Math.round((end_ms - Date.now()) / 1_000)} s to go: ${way.name}; ${this.#driver.accepted} accepted; MiB: ${mb}`);
      // Who dies has its calls made again; who goes on may have taken others meanwhile.
      const before = this.#log.atRisk();
      await way.run(broken);
      await lasts(UNHEARD_MS);
      this.#result.duplicates_max += before + this.#log.atRisk();
      this.#over_ms = Date.now();
      this.#result.faults_made += 1;
    }
    await lasts(Math.max(0, end_ms - Date.now()));
    this.#recovery();
  }

  #recovery(): void {
    if (this.#over_ms === 0) return;
    const recovery_s = Math.max(0, this.#driver.refused_ms - this.#over_ms) / 1_000;
    this.#result.recovery_s_max = Math.max(this.#result.recovery_s_max, recovery_s);
  }

  async #judgeUntil(over: () => boolean): Promise<void> {
    while (!over()) {
      await lasts(JUDGE_EACH_MS);
      const ripe_ms = Date.now() - RIPE_MS;
      await this.#judge([...this.#driver.books.values()].filter(({ at_ms }) => at_ms < ripe_ms));
    }
  }

  async #judge(accepted: readonly Accepted[]): Promise<void> {
    const [engine] = this.#engines;
    if (accepted.length === 0 || engine === undefined) return;
    const ours = (): boolean => false;
    const said = await judge({ url: engine.url, accepted, calls: [], log: this.#log.calls, quiet_ms_max: QUIET_MS_MAX, ours });
    const result = this.#result;
    for (const name of ['lost', 'uncalled', 'duplicates', 'double_counted', 'drift'] as const) result[name] += said[name];
    result.failed += said.states.failed;
    if (said.example !== null) result.faults.push(said.example);
    for (const { id } of accepted) this.#driver.books.delete(id);
    this.#log.forget(accepted.map(({ id }) => id));
  }

  /** Calls of what nobody accepted, and of what had ended long before. */
  #drift(): void {
    this.#result.drift += this.#log.calls.size;
    this.#result.duplicates += this.#log.late;
  }

  async #sample({ redis, stays, fragile }: Broken): Promise<void> {
    this.#keep('engine', rssMb(stays.pid));
    this.#keep(`engine ${fragile().pid}`, rssMb(fragile().pid));
    if (redis.redis.status !== 'ready') return;
    const info = await redis.redis.info('memory').catch(() => '');
    const number = (name: string): number => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0) / 1_048_576;
    this.#keep('redis used', number('used_memory'));
    this.#keep('redis rss', number('used_memory_rss'));
  }

  #keep(name: string, mb: number): void {
    if (mb === 0) return;
    const samples = this.#memory.get(name) ?? [];
    samples.push({ at_ms: Date.now(), mb });
    this.#memory.set(name, samples);
  }

  #remember(began_ms: number): void {
    const warm_ms = Math.min(WARM_MS, WARM_SHARE * this.#minutes * 60_000);
    for (const [name, all] of this.#memory) {
      const since_ms = Math.max(began_ms, all[0]?.at_ms ?? 0) + warm_ms;
      const samples = all.filter(({ at_ms }) => at_ms > since_ms);
      // A process that lived for a minute says nothing.
      if (samples.length < 10) continue;
      this.#result.memory[name] = { mb: Math.round(samples.at(-1)?.mb ?? 0), mb_per_h: Math.round(slopeMbPerH(samples)) };
    }
  }

  async #reconciled(): Promise<number> {
    const texts = await Promise.all(this.#engines.map(async ({ url }) => (await fetch(`${url}/metrics`)).text()));
    const found = texts.flatMap((text) => [...text.matchAll(/^sluice_reconciled_total(?:\{[^}]*\})? (\d+)/gm)]);
    return found.reduce((sum, [, count]) => sum + Number(count), 0);
  }

  async #idempotency({ redis: { redis } }: Broken, hours: number): Promise<number> {
    let [bytes, cursor] = [0, '0'];
    do {
      const [next, names] = await redis.scan(cursor, 'MATCH', '*idem:*', 'COUNT', 1_000);
      const sizes = await Promise.all(names.map((name) => redis.memory('USAGE', name)));
      bytes += sizes.reduce<number>((sum, size) => sum + (size ?? 0), 0);
      cursor = next;
    } while (cursor !== '0');
    return Math.round(bytes / 1_048_576 / hours);
  }

  #verdict(): void {
    const { faults, ...result } = this.#result;
    for (const name of ['lost', 'uncalled', 'double_counted', 'drift', 'failed', 'reconciled'] as const)
      if (result[name] > 0) faults.push(`${name}: ${result[name]}`);
    if (result.duplicates > result.duplicates_max)
      faults.push(`${result.duplicates} called twice, at most ${result.duplicates_max} may be`);
    faults.push(...this.#driver.wrong);
  }
}

function emptyResult(seed: number, minutes: number): Soaked {
  const none = { accepted: 0, lost: 0, uncalled: 0, duplicates: 0, duplicates_max: 0, double_counted: 0, drift: 0, failed: 0 };
  const rates = { capacity_per_s: 0, load_per_s: 0, faults_made: 0, recovery_s_max: 0, idempotency_mb_per_h: 0 };
  return { seed, minutes, ...rates, ...none, refused: {}, reconciled: 0, memory: {}, faults: [] };
}

function lasts(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
