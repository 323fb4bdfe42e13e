import http from 'node:http';
import { Engine } from './lib/engine.ts';
import { Helper } from './lib/process.ts';
import { percentile } from './lib/stats.ts';
import { pause } from './lib/bench.ts';
const engine = await Engine.start({ entry: process.argv[2] ?? 'src/main.ts', node_args: (process.argv[3]??'').split(' ').filter(Boolean) });
const creator = await Helper.start(new URL('./lib/creates.process.ts', import.meta.url), [engine.url, engine.token, String(15*1048576)]);
const agent = new http.Agent({ keepAlive: true });
const get = (p: string) => new Promise<void>((d, f) => { http.get(engine.url + p, { agent, headers: { authorization: 'Bearer ' + engine.token } }, (r) => { r.resume().once('end', d); }).once('error', f); });
async function run(label: string) {
  const h: number[] = [], r: number[] = [], own: number[] = [], b: number[]=[]; const end = performance.now() + 4000; const all: Promise<unknown>[] = [];
  while (performance.now() < end) {
    const t = performance.now();
    all.push(get('/healthz').then(() => h.push(performance.now() - t)), engine.redis.ping().then(() => r.push(performance.now() - t)), get('/v1/batches?limit=1').then(()=>b.push(performance.now()-t)));
    await pause(4); own.push(performance.now() - t - 4);
  }
  await Promise.all(all);
  const p = (x: number[]) => `p50 ${percentile(x, .5).toFixed(1)} p99 ${percentile(x, .99).toFixed(1)} max ${Math.max(...x).toFixed(1)}`;
  console.log(label, '| healthz', p(h), '| redis', p(r), '| list', p(b), '| own timer', p(own));
}
await run('quiet'); await run('quiet');
await creator.ask({ type: 'begin' });
await run('busy'); await run('busy');
console.log(await creator.ask({ type: 'end' }));
const m = await (await fetch(engine.url + '/metrics')).text(); console.log(m.split('\n').filter((l) => /event_loop_lag/.test(l) && !/#/.test(l)).join('\n'));
await creator.stop(); await engine.stop();
