// What it costs to have nothing to do.
import { type Bench, cpuMark, pause } from './lib/bench.ts';

/** What earlier benches left behind is done with by then. */
const CALM_MS = 1_000;

export const idle: Bench = {
  name: 'idle',
  what: 'no work: Redis commands a second (those inside scripts too), CPU of one core',
  async run(stage) {
    const s = stage.smoke ? 3 : 10;
    await pause(stage.smoke ? CALM_MS : 3 * CALM_MS);
    const cpu = cpuMark(stage);
    const [commands_before = 0] = await stage.engine.info('stats', 'total_commands_processed');
    const from_ms = performance.now();
    await pause(s * 1_000);
    const passed_s = (performance.now() - from_ms) / 1_000;
    const [commands_after = 0] = await stage.engine.info('stats', 'total_commands_processed');
    const now = cpuMark(stage);
    const percent = (name: 'engine' | 'redis'): number => ((now[name] - cpu[name]) / passed_s) * 100;
    return {
      // One is our own INFO.
      redis_commands_per_s: (commands_after - commands_before - 1) / passed_s,
      engine_cpu_percent: percent('engine'),
      redis_cpu_percent: percent('redis'),
    };
  },
};
