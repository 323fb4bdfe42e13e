// One account sends as much as it can: others are served beside it, and memory is bounded.
//
// What is normal for the others is measured twice: alone, and while the same flood goes to another server on the same machine, with a Redis
// of its own. There nothing is shared but the cores; so what is longer than that is what sharing the server costs.
// How much that is, is told and not judged: docs/decisions/0049 says what it is made of, and what is not mended yet.
import { Helper } from '../../bench/lib/process.ts';
import { api } from '../../test/helpers/api.ts';
import { TOKENS } from '../../test/helpers/engine.ts';
import { startRedis, until } from '../../test/helpers/redis.ts';
import type { Fault } from '../lib/fault.ts';
import type { FloodAnswer, FloodQuestion } from '../lib/flood.process.ts';
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
const BEGINS_MS_MAX = 20_000;
const TAKEN_MS_MAX = 60_000;

export const flood: Fault = {
  row: 17,
  name: 'flood',
  what: 'another account sends as much as it can, others go on',
  async run(scene) {
    const engine = await scene.engine({ redis_url: `unix://${(await startRedis()).path}` });
    const next_door = await scene.engine({ redis_url: `unix://${(await startRedis()).path}` }, 'hidden');
    const helper = await Helper.start(new URL('../lib/flood.process.ts', import.meta.url));
    const ask = (question: FloodQuestion): Promise<FloodAnswer> => helper.ask(question);
    const batches = scene.quick ? BATCHES_QUICK : BATCHES;
    const count = batches * EACH;
    /** p99 of the others while it goes on. */
    const beside = async (url: string): Promise<number> => {
      await ask({ type: 'flood', url, token: TOKENS.rival, batches });
      await until(async () => (await ask({ type: 'read' })).calls > 0, BEGINS_MS_MAX, 'the flood to begin');
      const p99_ms = await singles(scene);
      const waiting = count - (await ask({ type: 'read' })).calls;
      scene.check(waiting > 0, 'the flood was over before the others were');
      return p99_ms;
    };
    await scene.driver.more(scene.some);
    scene.driver.pause(true);
    const alone_ms = await singles(scene);
    const next_door_ms = await beside(next_door.url);
    await next_door.kill9();
    const before_mb = rssMb(engine.pid);
    scene.begins();
    const beside_ms = await beside(engine.url);
    scene.driver.pause(false);
    await scene.driver.more(scene.some);
    scene.over();
    const rival = api(engine, TOKENS.rival);
    await until(async () => (await ask({ type: 'read' })).ids.length === batches, TAKEN_MS_MAX, 'the flood to be taken');
    const { ids, refused } = await ask({ type: 'read' });
    for (const id of ids) await rival.ended(id, 'completed', TAKEN_MS_MAX);
    const grown_mb = rssMb(engine.pid) - before_mb;
    const { calls, tasks } = await ask({ type: 'read' });
    await helper.stop();
    scene.figure('tasks_of_the_flood', count);
    scene.figure('refused_of_the_flood', refused);
    scene.figure('p99_ms_alone', alone_ms);
    scene.figure('p99_ms_flood_next_door', next_door_ms);
    scene.figure('p99_ms_beside', beside_ms);
    scene.figure('rss_mb_grown', grown_mb);
    scene.check(grown_mb < RSS_MB_MAX, `${grown_mb} MB grown`);
    scene.check(calls === count && tasks === count, `${calls} calls for ${tasks} of ${count} tasks of the flood`);
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
