// One account sends as much as it can: others are served beside it, and memory is bounded. How much longer they wait is told, not judged:
// the flood's receiver and callers take their share of the same cores, and bench/shared.ts measures it with less of that.
import { api } from '../../test/helpers/api.ts';
import { TOKENS } from '../../test/helpers/engine.ts';
import { startRedis } from '../../test/helpers/redis.ts';
import type { Fault } from '../lib/fault.ts';
import { rssMb } from '../lib/memory.ts';
import type { Scene } from '../lib/scene.ts';

const PATH = '/flood';
const SINGLE = '/single';
const EACH = 1_000;
const BATCHES = 200;
const BATCHES_QUICK = 20;
const TOGETHER = 2;
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
    await scene.driver.more(scene.some);
    scene.driver.pause(true);
    const before_ms = await singles(scene);
    const before_mb = rssMb(engine.pid);
    const target = scene.slow.at(PATH, { delay_ms: 20 });
    const body = { tasks: Array.from({ length: EACH }, () => ({ target })) };
    const count = scene.quick ? BATCHES_QUICK : BATCHES;
    let sent = 0;
    const ids: string[] = [];
    const one = async (): Promise<void> => {
      while (sent++ < count) ids.push((await rival.create(body)).id);
    };
    scene.begins();
    const flooding = Promise.all(Array.from({ length: TOGETHER }, one));
    await scene.slow.heard(PATH, 1);
    const beside_ms = await singles(scene);
    const waiting = count * EACH - scene.slow.to(PATH).length;
    scene.driver.pause(false);
    await scene.driver.more(scene.some);
    await flooding;
    scene.over();
    scene.check(waiting > 0, 'the flood was over before the others were');
    for (const id of ids) await rival.ended(id, 'completed', TAKEN_MS_MAX);
    scene.figure('tasks_of_the_flood', count * EACH);
    scene.figure('of_those_waiting_then', waiting);
    scene.figure('p99_ms_before', before_ms);
    scene.figure('p99_ms_beside', beside_ms);
    scene.figure('rss_mb_grown', rssMb(engine.pid) - before_mb);
    scene.check(rssMb(engine.pid) - before_mb < RSS_MB_MAX, `${rssMb(engine.pid) - before_mb} MB grown`);
    const theirs = new Set(scene.slow.to(PATH).map(({ id }) => id));
    scene.check(theirs.size === count * EACH && scene.slow.to(PATH).length === count * EACH, 'tasks of the flood were not called once');
    return scene.judge({ duplicates_max: 0 }, { ours: (id) => !theirs.has(id) });
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
