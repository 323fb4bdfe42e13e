// The network between Redis and an engine that takes requests and makes calls fails in three ways; another engine goes on.
import { type FaultProxy, startProxy } from '../../test/helpers/proxy.ts';
import { startRedis } from '../../test/helpers/redis.ts';
import type { Fault } from '../lib/fault.ts';

const HELD = 1_200;
const CUT_MS = 30_000;
/** Longer than a holder may be silent there. */
const CUT_QUICK_MS = 5_000;

const WAYS: [string, string, (proxy: FaultProxy) => void][] = [
  ['silent', 'its packets are dropped', (proxy) => proxy.hang()],
  [
    'reset',
    'its connections are reset, then refused',
    (proxy) => {
      proxy.reset();
      proxy.refuse();
    },
  ],
  ['half-open', 'its requests arrive, the replies are lost', (proxy) => proxy.swallow()],
];

export const linksCut: readonly Fault[] = WAYS.map(([name, what, begin]) => ({
  row: 9,
  name,
  what: `one of two engines away from Redis for 30 s: ${what}`,
  async run(scene) {
    const redis = await startRedis();
    const proxy = await startProxy({ path: redis.path });
    const far = await scene.engine({ redis_url: `redis://127.0.0.1:${proxy.port}` });
    await scene.engine({ redis_url: `unix://${redis.path}` });
    await scene.driver.more(scene.some);
    const held = await scene.hold(HELD);
    const lonely = await scene.flying(far);
    scene.begins();
    begin(proxy);
    const risk = (await scene.atRisk()) - HELD + lonely;
    held.release();
    await scene.driver.more(scene.some);
    await scene.lasts(scene.quick ? CUT_QUICK_MS : CUT_MS);
    proxy.heal();
    scene.over();
    await scene.driver.more(scene.some);
    scene.figure('in_flight', lonely);
    return scene.judge({ duplicates_max: risk });
  },
}));
