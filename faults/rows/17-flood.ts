// One account sends as much as it can: others are served beside it, and memory is bounded. How much longer they wait is told, not judged: the
// flood takes its share of the same cores, though it has a process of its own that gives way to all others, as its callers and receivers are
// elsewhere.
import { api } from '../../test/helpers/api.ts';
import { TOKENS } from '../../test/helpers/engine.ts';
import { startRedis } from '../../test/helpers/redis.ts';
import type { Fault } from '../lib/fault.ts';
import { startFlood } from '../lib/flood.ts';
import { rssMb } from '../lib/memory.ts';
import type { Scene } from '../lib/scene.ts';

const SINGLE = '/single';
const EACH = 1_000;
const BATCHES = 200;
const BATCHES_QUICK = 20;
const SINGLES = 100;
const SINGLES_QUICK = 20;
const GAP_MS = 50;
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
    const before_ms = await singles(scene);
    const before_mb = rssMb(engine.pid);
    scene.begins();
    const theirs = await startFlood(engine, count, EACH);
    const beside_ms = await singles(scene);
    scene.check(theirs.on(), 'the flood was over before the others were');
    scene.driver.pause(false);
    await scene.driver.more(scene.some);
    const { ids } = await theirs.created;
    scene.over();
    for (const id of ids) await rival.ended(id, 'completed', TAKEN_MS_MAX);
    const { tasks, calls, per_s } = await theirs.heard;
    scene.figure('flood_per_s', per_s);
    scene.figure('tasks_of_the_flood', count * EACH);
    scene.figure('p99_ms_before', before_ms);
    scene.figure('p99_ms_beside', beside_ms);
    scene.figure('rss_mb_grown', rssMb(engine.pid) - before_mb);
    scene.check(rssMb(engine.pid) - before_mb < RSS_MB_MAX, `${rssMb(engine.pid) - before_mb} MB grown`);
    scene.check(tasks === count * EACH && calls === count * EACH, `${count * EACH} tasks of the flood, ${tasks} called, ${calls} calls`);
    return scene.judge({ duplicates_max: 0 });
  },
};

/** Of single tasks, twenty a second: milliseconds from sending one to its call, of a hundred the second longest. */
async function singles(scene: Scene): Promise<number> {
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
  const waits = scene.receiver.to(SINGLE).flatMap(({ id, at_ms }) => at_ms - (sent_ms.get(id) ?? Number.NaN));
  return (
    waits
      .filter((ms) => ms >= 0)
      .toSorted((a, b) => a - b)
      .at(-2) ?? 0
  );
}
