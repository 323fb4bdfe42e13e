// One account sends as much as it can: others are served beside it within twice their normal p99, and memory is bounded. The flood has a process
// of its own that gives way to all others, as its callers and receivers are elsewhere.
import { percentile } from '../../bench/lib/stats.ts';
import { api } from '../../test/helpers/api.ts';
import { TOKENS } from '../../test/helpers/engine.ts';
import { startRedis } from '../../test/helpers/redis.ts';
import type { Fault } from '../lib/fault.ts';
import { startFlood } from '../lib/flood.ts';
import { rssMb } from '../lib/memory.ts';
import type { Scene } from '../lib/scene.ts';

const SINGLE = '/single';
const EACH = 1_000;
/** More than are called while the others send. */
const BATCHES = 450;
const BATCHES_QUICK = 20;
const SINGLES = 400;
const SINGLES_QUICK = 20;
const GAP_MS = 25;
const RATIO_MAX = 2;
/** Below this nobody minds the ratio. */
const FAST_MS = 100;
const RSS_MB_MAX = 200;
const TAKEN_MS_MAX = 60_000;

export const flood: Fault = {
  row: 17,
  name: 'flood',
  what: 'another account sends as much as it can, others go on',
  async run(scene) {
    const redis_url = `unix://${(await startRedis()).path}`;
    const engine = await scene.engine({ redis_url });
    const rival = api(engine, TOKENS.rival);
    const count = scene.quick ? BATCHES_QUICK : BATCHES;
    await scene.driver.more(scene.some);
    scene.driver.pause(true);
    // Who has served others for a while: its code is compiled.
    await (await startFlood(engine, count / 5, EACH)).heard;
    const before = await singles(scene);
    const before_mb = rssMb(engine.pid);
    scene.begins();
    const theirs = await startFlood(engine, count, EACH);
    const beside = await singles(scene);
    scene.check(theirs.on(), 'the flood was over before the others were');
    scene.driver.pause(false);
    await scene.driver.more(scene.some);
    const { ids } = await theirs.created;
    scene.over();
    for (const id of ids) await rival.ended(id, 'completed', TAKEN_MS_MAX);
    const { tasks, calls, per_s } = await theirs.heard;
    scene.figure('flood_per_s', per_s);
    scene.figure('tasks_of_the_flood', count * EACH);
    scene.figure('p50_ms_before', before.p50_ms);
    scene.figure('p50_ms_beside', beside.p50_ms);
    scene.figure('p99_ms_before', before.p99_ms);
    scene.figure('p99_ms_beside', beside.p99_ms);
    scene.figure('rss_mb_grown', rssMb(engine.pid) - before_mb);
    scene.check(beside.p99_ms <= Math.max(FAST_MS, RATIO_MAX * before.p99_ms), `p99 ${beside.p99_ms} ms where it was ${before.p99_ms} ms`);
    scene.check(rssMb(engine.pid) - before_mb < RSS_MB_MAX, `${rssMb(engine.pid) - before_mb} MB grown`);
    scene.check(tasks === count * EACH && calls === count * EACH, `${count * EACH} tasks of the flood, ${tasks} called, ${calls} calls`);
    return scene.judge({ duplicates_max: 0 });
  },
};

/** Of single tasks, forty a second: milliseconds from sending one to its call. */
async function singles(scene: Scene): Promise<{ p50_ms: number; p99_ms: number }> {
  const target = scene.receiver.at(SINGLE);
  const sent_ms = new Map<string, number>();
  const count = scene.quick ? SINGLES_QUICK : SINGLES;
  const wanted = scene.receiver.to(SINGLE).length + count;
  const made: Promise<void>[] = [];
  for (let i = 0; i < count; i++) {
    const now_ms = Date.now();
    made.push(
      scene.driver.ask('POST', '/v1/tasks', { target }).then((task) => {
        if (task === null) return;
        sent_ms.set(task.id, now_ms);
        scene.driver.promised(task.id, 1);
      }),
    );
    await scene.lasts(GAP_MS);
  }
  await Promise.all(made);
  await scene.receiver.heard(SINGLE, wanted);
  const waits = scene.receiver
    .to(SINGLE)
    .flatMap(({ id, at_ms }) => at_ms - (sent_ms.get(id) ?? Number.NaN))
    .filter((ms) => ms >= 0);
  return { p50_ms: percentile(waits, 0.5), p99_ms: percentile(waits, 0.99) };
}
