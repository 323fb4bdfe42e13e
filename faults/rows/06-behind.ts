// A replica that is behind when its master dies: what `replicated` is for. Between the two is a link that is slow, or that stands still.
// The address of Redis moves to the replica, as a load balancer's or a floating one does.
import { startProxy } from '../../test/helpers/proxy.ts';
import { until } from '../../test/helpers/redis.ts';
import { startReplica, startTcpRedis } from '../../test/helpers/tcp-redis.ts';
import type { Fault } from '../lib/fault.ts';
import type { Scene } from '../lib/scene.ts';

const HELD = 1_000;
const HOST = '127.0.0.1';
/** Each way: an acknowledgement takes twice that, and is waited for 250 ms. */
const SLOW_MS = 60;
const SLOW_LASTS_MS = 2_000;
const CUT_LASTS_MS = 3_000;
/** An outcome may wait this long before Redis is told. */
const UNTOLD_MS = 1_000;
const TAKEN_MS_MAX = 10_000;

type Durability = 'local' | 'replicated';

const LINKS = [
  { name: 'slow link', what: `acknowledges after ${2 * SLOW_MS} ms`, lasts_ms: SLOW_LASTS_MS, hangs: false },
  { name: 'dead link', what: `hears nothing for ${CUT_LASTS_MS / 1_000} s`, lasts_ms: CUT_LASTS_MS, hangs: true },
] as const;

export const behind: readonly Fault[] = LINKS.flatMap((link) =>
  (['local', 'replicated'] as const).map(
    (durability): Fault => ({
      row: 6,
      name: `${link.name} ${durability}`,
      what: `the master dies while its replica ${link.what} (${durability})`,
      ...(durability === 'local' ? { loses: true } : {}),
      run: (scene) => run(scene, durability, link),
    }),
  ),
);

async function run(scene: Scene, durability: Durability, { lasts_ms, hangs }: (typeof LINKS)[number]): ReturnType<Fault['run']> {
  const master = await startTcpRedis();
  const link = await startProxy({ host: HOST, port: master.port });
  const replica = await startReplica(master, link.port);
  const place = { host: HOST, port: master.port };
  const address = await startProxy(place);
  const options = { redis_url: `redis://${HOST}:${address.port}`, env: { SLUICE_DURABILITY: durability } };
  await Promise.all([scene.engine(options), scene.engine(options)]);
  await scene.driver.more(scene.some);
  const held = await scene.hold(HELD);
  scene.begins();
  const began_ms = Date.now();
  if (hangs) link.hang();
  else link.delay(SLOW_MS);
  await scene.lasts(lasts_ms);
  // What was accepted just now is what the replica has not heard yet; `replicated` may accept nothing at all.
  if (durability === 'local') await scene.driver.more(1);
  const meanwhile = [...scene.driver.books.values()].filter(({ at_ms }) => at_ms > began_ms);
  const killed_ms = Date.now();
  await master.kill();
  address.refuse();
  const accepted = [...scene.driver.books.values()].filter(({ at_ms }) => at_ms > began_ms).reduce((sum, { tasks }) => sum + tasks, 0);
  // What the replica has not heard by now is on its way no more.
  link.refuse();
  await replica.redis.call('REPLICAOF', 'NO', 'ONE');
  const takes = async (): Promise<boolean> => /role:master/.test(await replica.redis.info('replication'));
  await until(takes, TAKEN_MS_MAX, 'the replica to take over');
  place.port = replica.port;
  address.heal();
  scene.over();
  held.release();
  // Calls whose outcome the replica has not heard of are made again.
  const unheard_ms = (hangs ? began_ms : killed_ms - 2 * SLOW_MS) - UNTOLD_MS;
  const risk = scene.calls().filter((call) => call.at_ms > unheard_ms || !call.answered).length + HELD;
  await scene.driver.more(scene.some);
  scene.figure('accepted_while_behind', accepted);
  scene.figure('requests_accepted_while_behind', meanwhile.length);
  const judgement = await scene.judge({ duplicates_max: risk, lost_max: durability === 'local' ? accepted : 0, forgets: true });
  // Otherwise the row shows nothing.
  if (durability === 'local' && judgement.lost === 0) judgement.faults.push('nothing was lost: the replica was not behind');
  return judgement;
}
