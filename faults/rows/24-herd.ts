// A hundred thousand tasks are due at one moment.
import { startRedis } from '../../test/helpers/redis.ts';
import type { Fault } from '../lib/fault.ts';

const TASKS = 100_000;
const TASKS_QUICK = 5_000;
const EACH = 1_000;
/** Enough to create them all first. */
const AHEAD_MS = 15_000;

export const herd: Fault = {
  row: 24,
  name: '',
  what: '100,000 tasks with one execute_after',
  async run(scene) {
    const { path } = await startRedis();
    await scene.engine({ redis_url: `unix://${path}` });
    await scene.engine({ redis_url: `unix://${path}` });
    const target = scene.receiver.at('/herd');
    const due_ms = Date.now() + AHEAD_MS;
    const execute_after = new Date(due_ms).toISOString();
    const tasks = Array.from({ length: EACH }, () => ({ target, execute_after }));
    const count = scene.quick ? TASKS_QUICK : TASKS;
    for (let i = 0; i < count; i += EACH) await scene.driver.batch(tasks);
    scene.check(Date.now() < due_ms, 'creating them took too long');
    scene.check(scene.receiver.to('/herd').length === 0, 'some came before their time');
    await scene.lasts(due_ms - Date.now());
    scene.begins();
    await scene.receiver.heard('/herd', count, 120_000);
    const late_ms = scene.receiver.to('/herd').map((call) => call.at_ms - due_ms);
    scene.check(Math.min(...late_ms.slice(0, EACH)) >= 0, 'some came before their time');
    const sorted = late_ms.toSorted((a, b) => a - b);
    scene.figure('late_ms_p50', sorted[Math.floor(sorted.length / 2)] ?? 0);
    scene.figure('late_ms_p99', sorted[Math.floor(sorted.length * 0.99)] ?? 0);
    return scene.judge({ duplicates_max: 0 });
  },
};
