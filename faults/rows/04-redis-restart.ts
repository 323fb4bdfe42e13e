// Redis dies and comes back with its append-only file, synced once a second: what it had written, the machine still has.
import { startKillableRedis } from '../../test/engine/killable-redis.ts';
import type { Fault } from '../lib/fault.ts';
import type { Scene } from '../lib/scene.ts';

const HELD = 1_000;
const AWAY_MS = 1_000;

export const redisRestart: Fault = {
  row: 4,
  name: '',
  what: 'kill -9 of Redis, back after a second with its file',
  async run(scene) {
    const redis = await startKillableRedis({ keeps: 'second' });
    await scene.engine({ redis_url: redis.url });
    await scene.engine({ redis_url: redis.url });
    await scene.driver.more(scene.some);
    const held = await scene.hold(HELD);
    scene.begins();
    const struck_ms = Date.now();
    await redis.kill9();
    const risk = await scene.atRisk(struck_ms);
    held.release();
    await checkOutage(scene);
    await scene.lasts(AWAY_MS);
    await redis.start();
    scene.over();
    await scene.driver.more(scene.some);
    return scene.judge({ duplicates_max: risk });
  },
};

/** What callers are told meanwhile. */
async function checkOutage(scene: Scene): Promise<void> {
  const client = scene.client();
  const refused = await Promise.all([
    client.ask('GET', '/v1/batches'),
    client.ask('GET', '/readyz'),
    client.ask('POST', '/v1/batches', { body: { tasks: [{ target: scene.receiver.url }] } }),
  ]);
  for (const { status, headers, text } of refused) {
    const told = status === 503 && text.includes('"unavailable"') && /^[1-9]\d*$/.test(String(headers['retry-after']));
    scene.check(told, `answered ${status}: ${text.slice(0, 200)}`);
  }
  const { status } = await client.ask('GET', '/healthz');
  scene.check(status === 200, `/healthz answered ${status}`);
}
