// The mixed load for as long as one likes, at a rate: does anything grow?
//
//   node --import tsx bench/soak.ts [--minutes 10] [--rate 500] [--engine FILE] [--json]
//
// Batches are kept for RETENTION_S only, so what Redis holds comes to a level soon; what rises after that is a leak, or work that is
// not done in time. Slopes are those of the second half.
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Api } from './lib/api.ts';
import { Engine } from './lib/engine.ts';
import { KINDS, mix } from './lib/mix.ts';
import { Receiver } from './lib/receiver.ts';
import { describeMachine } from './lib/report.ts';
import { percentile, rounded, slope } from './lib/stats.ts';

const RETENTION_S = 30;
const CONNECTIONS = 32;
const LOOK_EVERY_MS = 1_000;

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '10' },
    rate: { type: 'string', default: '500' },
    json: { type: 'boolean', default: false },
    engine: { type: 'string', default: fileURLToPath(new URL('../dist/main.js', import.meta.url)) },
  },
});
const [minutes, rate] = [Number(values.minutes), Number(values.rate)];
if (!(minutes > 0 && minutes <= 10_080 && rate >= 1)) throw new Error('--minutes is a number up to 10,080 (a week), --rate one from 1.');
if (!existsSync(values.engine)) throw new Error(`There is no ${values.engine}: run "make build" first.`);

interface Look {
  at_min: number;
  rss: number;
  redis: number;
}

const receiver = await Receiver.start();
const engine = await Engine.start({ entry: values.engine, env: { SLUICE_RETENTION: `${RETENTION_S}s` } });
const api = new Api(engine);
try {
  const looks: Look[] = [];
  const from_ms = performance.now();
  let looking: Promise<void> = Promise.resolve();
  const timer = setInterval(() => {
    looking = looking.then(async () => {
      looks.push({ at_min: (performance.now() - from_ms) / 60_000, rss: rssBytes(engine.pid), redis: await engine.kept_bytes() });
    });
  }, LOOK_EVERY_MS);
  const load = { url: engine.url, token: engine.token, target: `${receiver.origin}/hook`, connections: CONNECTIONS, rate };
  const { requests, requests_s, took_ms, tasks } = await mix(api, { ...load, duration_s: Math.ceil(minutes * 60) });
  clearInterval(timer);
  await looking;
  await receiver.received(tasks);
  const late = looks.slice(Math.floor(looks.length / 2));
  const figures: Record<string, number> = { minutes, offered_per_s: rate, requests, requests_per_s: requests_s, tasks };
  for (const kind of KINDS) {
    figures[`${kind}_p50_ms`] = percentile(took_ms[kind], 0.5);
    figures[`${kind}_p99_ms`] = percentile(took_ms[kind], 0.99);
  }
  figures['rss_bytes'] = late.at(-1)?.rss ?? Number.NaN;
  figures['rss_bytes_per_minute'] = slope(late.map(({ at_min, rss }) => [at_min, rss]));
  figures['redis_bytes'] = late.at(-1)?.redis ?? Number.NaN;
  figures['redis_bytes_per_minute'] = slope(late.map(({ at_min, redis }) => [at_min, redis]));
  const line = { soak: true, ...describeMachine(await engine.redis_version()), figures };
  const rows = Object.entries(figures).map(([name, value]) => `  ${name.padEnd(24)} ${rounded(value).toLocaleString('en-US')}`);
  process.stdout.write(values.json ? `${JSON.stringify(line)}\n` : `soak: ${minutes} min of the mixed load\n${rows.join('\n')}\n`);
} finally {
  await api.close();
  await engine.stop();
  await receiver.stop();
}

/** Of a process; NaN where the system does not say. */
function rssBytes(pid: number): number {
  try {
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? Number.NaN) * 1_024;
  } catch {
    return Number.NaN;
  }
}
