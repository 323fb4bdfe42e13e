// A hundred thousand tasks and ten thousand schedules are due at one moment.
import { startRedis } from '../../test/helpers/redis.ts';
import type { Fault } from '../lib/fault.ts';
import type { Scene } from '../lib/scene.ts';

const TASKS = 100_000;
const TASKS_QUICK = 5_000;
const SCHEDULES = 10_000;
const SCHEDULES_QUICK = 500;
const EACH = 1_000;
const TOGETHER = 16;
const MINUTE_MS = 60_000;
/** Enough to create them all first; then the next full minute, when the schedules are due. */
const AHEAD_MS = 75_000;
const AHEAD_QUICK_MS = 15_000;
const HEARD_MS_MAX = 180_000;
const BEFORE_MS = 20;

export const herd: Fault = {
  row: 24,
  name: '',
  what: '100,000 tasks and 10,000 schedules, all due at one moment',
  async run(scene) {
    const { path, redis } = await startRedis();
    await scene.engine({ redis_url: `unix://${path}` });
    await scene.engine({ redis_url: `unix://${path}` });
    const [count, schedules] = scene.quick ? [TASKS_QUICK, SCHEDULES_QUICK] : [TASKS, SCHEDULES];
    const due_ms = Math.ceil((Date.now() + (scene.quick ? AHEAD_QUICK_MS : AHEAD_MS)) / MINUTE_MS) * MINUTE_MS;
    const due = new Date(due_ms);
    await schedule(scene, schedules, `${due.getUTCMinutes()} ${due.getUTCHours()} ${due.getUTCDate()} ${due.getUTCMonth() + 1} *`);
    const target = scene.receiver.at(HERD);
    const tasks = Array.from({ length: EACH }, () => ({ target, execute_after: due.toISOString() }));
    for (let i = 0; i < count; i += EACH) await scene.driver.batch(tasks);
    scene.check(Date.now() < due_ms, 'creating them took too long');
    scene.figure('made_before_s', (due_ms - Date.now()) / 1_000);
    const all = (): number => scene.receiver.to(HERD).length + scene.receiver.to(TICKS).length;
    await scene.lasts(Math.max(0, due_ms - Date.now() - BEFORE_MS));
    scene.check(all() === 0, 'some came before their time');
    scene.begins();
    await redis.config('RESETSTAT');
    await Promise.all([scene.receiver.heard(HERD, count, HEARD_MS_MAX), scene.receiver.heard(TICKS, schedules, HEARD_MS_MAX)]);
    scene.figure('schedules', schedules);
    for (const [name, of] of [
      ['', HERD],
      ['ticks_', TICKS],
    ] as const) {
      const late_ms = scene.receiver.to(of).map((call) => call.at_ms - due_ms);
      scene.check(
        late_ms.every((ms) => ms >= 0),
        'some came before their time',
      );
      scene.figure(`${name}late_ms_p50`, quantile(late_ms, 0.5));
      scene.figure(`${name}late_ms_p99`, quantile(late_ms, 0.99));
    }
    // As Redis itself has it: what a script holds up everybody else.
    const [, script_us] = /^latency_percentiles_usec_evalsha:.*p99=([\d.]+)/m.exec(await redis.info('latencystats')) ?? [];
    scene.figure('script_ms_p99', Number(script_us) / 1_000);
    const runs = new Set(scene.receiver.to(TICKS).map(({ id }) => id));
    const judgement = await scene.judge({ duplicates_max: 0 }, { ours: (id) => !runs.has(id) });
    const calls = scene.receiver.to(TICKS).length;
    if (calls !== schedules || runs.size !== schedules)
      judgement.faults.push(`${calls} calls of ${runs.size} runs of ${schedules} schedules`);
    return judgement;
  },
};

const HERD = '/herd';
const TICKS = '/ticks';

async function schedule(scene: Scene, count: number, cron: string): Promise<void> {
  const task_template = { target: scene.receiver.at(TICKS) };
  let left = count;
  const one = async (): Promise<void> => {
    while (left-- > 0) await scene.driver.ask('POST', '/v1/schedules', { cron, timezone: 'UTC', task_template });
  };
  await Promise.all(Array.from({ length: TOGETHER }, one));
}

function quantile(values: readonly number[], q: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length * q)] ?? 0;
}
