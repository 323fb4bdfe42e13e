// A process that makes calls loses Redis, and can still reach the receivers: it starts nothing more, gives up what a `concurrent`
// limiter counts, and the other takes over.
import { startProxy } from '../../test/helpers/proxy.ts';
import { startRedis, until } from '../../test/helpers/redis.ts';
import type { Fault } from '../lib/fault.ts';

const HELD = 1_200;
const CUT_MS = 60_000;
const CUT_QUICK_MS = 10_000;
const PLACES = 20;
const LIMITED = 200;
const LIMITED_MS = 500;
const TAKEN_MS_MAX = 20_000;

export const workerCut: Fault = {
  row: 10,
  name: '',
  what: 'one of two processes loses Redis for 60 s, not the receivers',
  async run(scene) {
    const redis = await startRedis();
    const proxy = await startProxy({ path: redis.path });
    await scene.engine({ redis_url: `unix://${redis.path}` });
    const far = await scene.engine({ redis_url: `redis://127.0.0.1:${proxy.port}` }, 'hidden');
    const body = { name: 'places', type: 'concurrent', config: { limit: PLACES } };
    await scene.client().ask('POST', '/v1/rate-limiters', { body });
    await scene.driver.more(scene.some);
    const held = await scene.hold(HELD);
    const lonely = await scene.flying(far);
    const target = scene.receiver.at('/limited', { delay_ms: LIMITED_MS });
    const limited = (): number => scene.receiver.to('/limited').filter((call) => !call.answered && !call.gone).length;
    await scene.driver.batch(
      Array.from({ length: LIMITED }, () => ({ target, rate_limiter: 'places', retry: { max_retries: 5, delay: 0.1 } })),
    );
    await until(() => limited() > 0, TAKEN_MS_MAX, 'limited tasks to start');
    scene.begins();
    proxy.hang();
    let most = 0;
    const watch = setInterval(() => {
      most = Math.max(most, limited());
    }, 5);
    const risk = (await scene.atRisk()) - HELD + lonely;
    held.release();
    await scene.driver.more(scene.some);
    await scene.lasts(scene.quick ? CUT_QUICK_MS : CUT_MS);
    proxy.heal();
    scene.over();
    await scene.driver.more(scene.some);
    await scene.quiet();
    clearInterval(watch);
    scene.figure('in_flight', lonely);
    scene.figure('over_limit', Math.max(0, most - PLACES));
    scene.check(most <= PLACES, `${most} calls at once where ${PLACES} may be`);
    return scene.judge({ duplicates_max: risk });
  },
};
