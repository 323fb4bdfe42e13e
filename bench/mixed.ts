// What it is like for everybody who asks while work is made and done: reads, creates and adds at once.
import { type Bench, cpuEach, cpuMark, type Figures } from './lib/bench.ts';
import { KINDS, mix } from './lib/mix.ts';
import { percentile } from './lib/stats.ts';

const CONNECTIONS = 32;

export const mixed: Bench = {
  name: 'mixed',
  what: `70 % reads of a batch, 20 % creates of 5 tasks, 10 % adds of 5, over ${CONNECTIONS} connections, while the tasks run`,
  async run(stage) {
    const { engine, receiver, api, smoke } = stage;
    const options = { url: engine.url, token: engine.token, target: `${receiver.origin}/hook`, connections: CONNECTIONS };
    if (!smoke) await mix(api, { ...options, duration_s: 3 });
    await receiver.reset();
    const cpu = cpuMark(stage);
    const { requests, requests_s, took_ms, tasks } = await mix(api, { ...options, duration_s: smoke ? 2 : 20 });
    const each = cpuEach(cpu, cpuMark(stage), requests);
    const figures: Figures = { requests, requests_per_s: requests_s, tasks, engine_cpu_us: each.engine, redis_cpu_us: each.redis };
    for (const kind of KINDS) {
      figures[`${kind}_requests`] = took_ms[kind].length;
      figures[`${kind}_p50_ms`] = percentile(took_ms[kind], 0.5);
      figures[`${kind}_p99_ms`] = percentile(took_ms[kind], 0.99);
    }
    const from_ms = performance.now();
    await receiver.received(tasks);
    figures['drained_after_ms'] = performance.now() - from_ms;
    return figures;
  },
};
