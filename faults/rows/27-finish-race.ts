// The last outcomes of ten thousand tasks come at once, while tasks are added and a cancel races: one end, exact counts.

import { freshPath, tasksFor } from '../../test/engine/stage.ts';
import { startRedis } from '../../test/helpers/redis.ts';
import type { Fault } from '../lib/fault.ts';
import type { Scene } from '../lib/scene.ts';

const TASKS = 10_000;
/** Under way together at the end; a host that is slow to answer gets no more places. */
const LAST = 100;
const ADDS = 10;
const ADDED = 7;
const THREADS = '4';
const ENDED_MS_MAX = 60_000;

export const finishRace: Fault = {
  row: 27,
  name: '',
  what: 'the end of a batch of 10,000 while tasks are added and a cancel races',
  async run(scene) {
    const redis_url = `unix://${(await startRedis()).path}`;
    await scene.engine({ redis_url, env: { SLUICE_CALLBACK_THREADS: THREADS } });
    await scene.engine({ redis_url, env: { SLUICE_CALLBACK_THREADS: THREADS } });
    scene.begins();
    const rounds = scene.quick ? 2 : 12;
    for (let round = 0; round < rounds; round++) await race(scene, round % 2 === 1);
    scene.over();
    scene.figure('rounds', rounds);
    return scene.judge({ duplicates_max: 0 });
  },
};

async function race(scene: Scene, cancels: boolean): Promise<void> {
  const { receiver, driver } = scene;
  const client = scene.client();
  const path = freshPath();
  const url = receiver.at(path);
  const last = receiver.at(`${path}/last`, { hold: true });
  const hook = (event: string): object => ({ url: receiver.at(`${path}/${event}`) });
  const notifications = { on_finish: hook('finish'), on_success: hook('success'), on_death: hook('death') };
  // All but the last have ended; those are under way together.
  const { id } = await client.create({ notifications, options: { hold: true }, tasks: tasksFor(url, TASKS - LAST) });
  await receiver.heard(path, TASKS - LAST, ENDED_MS_MAX);
  await client.add(id, { tasks: tasksFor(last, LAST) });
  await receiver.heard(`${path}/last`, LAST);
  await client.release(id);
  receiver.release(`${path}/last`);
  const adds = Array.from({ length: ADDS }, () => client.ask('POST', `/v1/batches/${id}/tasks`, { body: { tasks: tasksFor(url, ADDED) } }));
  const cancel = cancels ? client.ask('POST', `/v1/batches/${id}/cancel`) : null;
  const added = (await Promise.all(adds)).filter(({ status }) => status === 200).length;
  await cancel;
  driver.promised(id, TASKS + ADDED * added);
  const { status, stats } = await client.batchWhen(id, (batch) => batch.stats.pending === 0 && batch.status !== 'processing', ENDED_MS_MAX);
  await receiver.heard(`${path}/finish`, 1);
  const succeeded = status === 'completed' && stats.failed + (stats.cancelled ?? 0) === 0;
  if (succeeded) await receiver.heard(`${path}/success`, 1);
  const told = (event: string): number => new Set(receiver.to(`${path}/${event}`).map((call) => call.id)).size;
  const ends = [told('finish'), told('success'), told('death')];
  scene.check(ends.join() === `1,${succeeded ? 1 : 0},0`, `a batch that ended ${status} told of ${ends} ends, successes and deaths`);
  const [finish] = receiver.to(`${path}/finish`);
  const said = (JSON.parse(finish?.body.toString() ?? '') as { batch: { stats: typeof stats } }).batch.stats;
  scene.check(said.total === stats.total && said.completed === stats.completed, `on_finish told ${JSON.stringify(said)}`);
}
