// Progress streams: an eleventh is refused, the places of those whose process was killed come back, and one that reads nothing is closed.
import { TOKENS } from '../../test/helpers/engine.ts';
import { startRedis, until } from '../../test/helpers/redis.ts';
import { openSocket, type Reading } from '../../test/helpers/stream.ts';
import type { Fault } from '../lib/fault.ts';
import { rssMb } from '../lib/memory.ts';

const PLACES = 10;
/** SLUICE_STREAM_PLACE, and as long as it takes to look. */
const BACK_S_MAX = 30;
const ROUND_TASKS = 2_000;
const ROUNDS_MAX = 60;
const ROUND_MS_MAX = 30_000;
const RSS_MB_MAX = 100;

export const webSockets: Fault = {
  row: 21,
  name: '',
  what: 'an 11th WebSocket, kill -9 of the owner of ten, a reader that hangs',
  async run(scene) {
    const redis_url = `unix://${(await startRedis()).path}`;
    const [stays, dies] = [await scene.engine({ redis_url }), await scene.engine({ redis_url })];
    const open = (engine: { url: string }, id: string, query = ''): Promise<Reading> =>
      openSocket(engine.url, `/v1/batches/${id}/stream${query}`, TOKENS.acme);
    const refusal = (opening: Promise<Reading>): Promise<number> =>
      opening.then(
        () => 0,
        (error: { status?: number }) => error.status ?? -1,
      );
    await scene.driver.more(scene.some);
    const target = scene.receiver.at('/streamed');
    const id = (await scene.driver.batch([{ target }], { options: { hold: true } })) ?? '';
    const owned = await Promise.all(Array.from({ length: PLACES }, () => open(dies, id)));
    for (const engine of [stays, dies]) {
      const status = await refusal(open(engine, id));
      scene.check(status === 429, `the eleventh was answered ${status}`);
    }
    scene.begins();
    scene.forget(dies);
    const struck_ms = Date.now();
    await dies.kill9();
    scene.over();
    const killed_ms = performance.now();
    const risk = await scene.atRisk(struck_ms);
    const codes = await Promise.all(owned.map(({ ended }) => ended));
    scene.check(
      codes.every((code) => code === 1006),
      `those of the dead ended with ${new Set(codes)}`,
    );
    const again: Reading[] = [];
    const all = async (): Promise<boolean> => {
      while (again.length < PLACES) {
        const reading = await open(stays, id).catch(() => null);
        if (reading === null) return false;
        again.push(reading);
      }
      return true;
    };
    await until(all, BACK_S_MAX * 1_000, `the places to be free within ${BACK_S_MAX} s`);
    scene.figure('places_back_s', (performance.now() - killed_ms) / 1_000);
    for (const reading of again) reading.close();
    await scene.driver.more(scene.some);

    const before_mb = rssMb(stays.pid);
    const closed = (): Promise<number> => scene.metric('streams_closed_total{reason="slow"}');
    const slow = await closed();
    // Those that were closed a moment ago give their places back.
    const opened: Reading[] = [];
    const two = async (): Promise<boolean> => {
      const one = await open(stays, id, '?tasks=true').catch(() => null);
      if (one !== null) opened.push(one);
      return opened.length === 2;
    };
    await until(two, BACK_S_MAX * 1_000, 'two streams');
    await Promise.all(opened.map((one) => one.until(() => true)));
    const [hanging, reading] = opened;
    hanging?.pause();
    let rounds = 0;
    for (; (await closed()) === slow && rounds < ROUNDS_MAX; rounds++) {
      const tasks = Array.from({ length: ROUND_TASKS }, () => ({ target }));
      if ((await scene.driver.ask('POST', `/v1/batches/${id}/tasks`, { tasks })) !== null) scene.driver.promised(id, ROUND_TASKS);
      await scene.receiver.heard('/streamed', (rounds + 1) * ROUND_TASKS, ROUND_MS_MAX);
    }
    scene.check(rounds < ROUNDS_MAX, `the reader that hangs is still open after ${rounds} rounds`);
    hanging?.resume();
    const code = await hanging?.ended;
    scene.check(code === 1013, `it was closed with ${code}`);
    scene.check(reading?.code === null, 'the one that reads was closed too');
    scene.figure('rss_mb_grown', rssMb(stays.pid) - before_mb);
    scene.check(rssMb(stays.pid) - before_mb < RSS_MB_MAX, `${rssMb(stays.pid) - before_mb} MB grown`);
    await scene.driver.ask('POST', `/v1/batches/${id}/release`);
    const last = await reading?.ended;
    scene.check(last === 1000, `the one that reads ended with ${last}`);
    return scene.judge({ duplicates_max: risk });
  },
};
