import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type LimiterLook, LimiterTally, LimiterTop } from '../../src/metrics/limiters.ts';
import { createMetrics, type Metrics } from '../../src/metrics/registry.ts';
import { Lane } from '../helpers/lane.ts';
import { startRedis } from '../helpers/redis.ts';

const LOOK: LimiterLook = { lane: 'l', account: 'a', name: 'n', granted: 0, expired: 0, reclaimed: 0, waiting: 0, waits: [] };
const nameOf = async (id: string): Promise<string> => `${id}-name`;
const HOUR_MS = 3_600_000;

/** One message of a thread, in which each of these limiters was looked at. */
function tell(top: LimiterTop, now_ms: number, ...looks: Partial<LimiterLook>[]): Promise<void> {
  const tally = new LimiterTally();
  for (const look of looks) tally.add({ ...LOOK, ...look });
  return top.take(structuredClone(tally.drain()), now_ms);
}

async function seriesOf(metrics: Metrics, name: string): Promise<Record<string, number>> {
  const lines = (await metrics.text()).split('\n').filter((line) => line.startsWith(`sluice_${name}{`));
  return Object.fromEntries(
    lines.map((line) => [line.slice(line.indexOf('{'), line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]),
  );
}

const OTHERS = '{account="",limiter="other"}';

test('the 50 most used limiters have series of their own, the rest is one, and nothing is counted twice', async () => {
  const metrics = createMetrics();
  const top = new LimiterTop(metrics, nameOf);
  const limiters = Array.from({ length: 80 }, (_, i) => ({ lane: `l${i}`, name: `n${i}`, granted: 1_000 - i }));
  await tell(top, 0, ...limiters);
  const grants = await seriesOf(metrics, 'limiter_top_grants_total');
  assert.equal(Object.keys(grants).length, 51);
  assert.equal(grants['{account="a-name",limiter="n0"}'], 1_000);
  assert.equal(
    Object.values(grants).reduce((sum, one) => sum + one, 0),
    limiters.reduce((sum, { granted }) => sum + granted, 0),
  );
  assert.equal(top.lanes().length, 50);
});

test('who is used more takes the place of the least used, begins at nothing, and old counts go with the series', async () => {
  const metrics = createMetrics();
  const top = new LimiterTop(metrics, nameOf);
  await tell(top, 0, ...Array.from({ length: 50 }, (_, i) => ({ lane: `l${i}`, name: `n${i}`, granted: 100 + i })));
  await tell(top, 0, { lane: 'new', name: 'new', granted: 110 });
  assert.equal((await seriesOf(metrics, 'limiter_top_grants_total'))[OTHERS], 110, 'hardly more is no reason');
  await tell(top, 0, { lane: 'new', name: 'new', granted: 90 });
  const grants = await seriesOf(metrics, 'limiter_top_grants_total');
  assert.deepEqual(
    [grants[OTHERS], grants['{account="a-name",limiter="new"}'], grants['{account="a-name",limiter="n0"}']],
    [110, 90, undefined],
  );
  assert.equal(Object.keys(grants).length, 51);
  await tell(top, 0, { lane: 'l0', name: 'n0', granted: 7 });
  assert.equal((await seriesOf(metrics, 'limiter_top_grants_total'))[OTHERS], 117);

  await tell(top, 2 * HOUR_MS, { lane: 'later', name: 'later', granted: 1 });
  assert.ok(top.lanes().includes('later'), 'what was used long ago counts for little');
});

test('where everybody can read /metrics no account and no limiter is named', async () => {
  const metrics = createMetrics();
  const top = new LimiterTop(metrics, null);
  await tell(top, 0, { granted: 3, expired: 1, waiting: 9, waits: [20, 3] });
  assert.deepEqual(await seriesOf(metrics, 'limiter_top_grants_total'), { [OTHERS]: 3 });
  assert.deepEqual(await seriesOf(metrics, 'limiter_top_timeouts_total'), { [OTHERS]: 1 });
  assert.deepEqual([top.lanes(), await seriesOf(metrics, 'limiter_top_waiting')], [[], {}]);
});

test('a thread tells of so many limiters at most, and what the rest did is not lost', () => {
  const tally = new LimiterTally();
  for (let i = 0; i < 3_000; i++) tally.add({ ...LOOK, lane: `l${i}`, name: `n${i}`, granted: 1 });
  tally.add({ ...LOOK, lane: 'lost', account: '', name: '', granted: 5 });
  const counts = tally.drain();
  assert.equal(counts.length, 1_001);
  assert.deepEqual(
    counts.filter(({ lane }) => lane === '').map(({ granted }) => granted),
    [2_005],
  );
  assert.deepEqual(tally.drain(), []);
});

test('what a lane on Redis tells of a dead holder, of waits and of its line is what its series show', async () => {
  const { redis } = await startRedis();
  const [t_ms, s] = [1_800_000_000_000, 1_000_000];
  const lane = await Lane.create(redis, 0, { type: 'concurrent', config: { limit: 2 }, now_us: t_ms * 1000 });
  const metrics = createMetrics();
  const top = new LimiterTop(metrics, nameOf);
  const look = async (now_us: number): Promise<void> => {
    const { looked, ...counts } = await lane.look(now_us);
    assert.ok(looked);
    await tell(top, now_us / 1000, { lane: lane.core, account: 'acme', name: 'slots', ...counts });
  };
  await lane.queue(t_ms * 1000, { batch: lane.newBatch(t_ms * 1000), from: 0, to: 6, first_ms: t_ms });
  await look(t_ms * 1000);
  // Nobody says that the first two have ended: their leases do, 60 s after the 30 s that each may take.
  await look((t_ms + 91_000) * 1000);
  const series = '{account="acme-name",limiter="slots"}';
  assert.equal((await seriesOf(metrics, 'limiter_top_slots_reclaimed_total'))[series], 2);
  assert.equal((await seriesOf(metrics, 'limiter_top_grants_total'))[series], 4);
  assert.equal((await seriesOf(metrics, 'limiter_top_waiting'))[series], 3);
  assert.equal((await seriesOf(metrics, 'limiter_top_wait_seconds_count'))[series], 4);
  assert.equal((await seriesOf(metrics, 'limiter_top_wait_seconds_sum'))[series], 182);
  assert.equal((await seriesOf(metrics, 'limiter_top_wait_seconds_bucket'))['{account="acme-name",limiter="slots",le="60"}'], 2);
  // 300 s after they came, three fail by queue_timeout.
  await look(t_ms * 1000 + 300 * s);
  assert.equal((await seriesOf(metrics, 'limiter_top_timeouts_total'))[series], 3);
});

test('slots of a dead holder that a message finds are told by the next look, once', async () => {
  const { redis } = await startRedis();
  const t_ms = 1_800_000_000_000;
  const lane = await Lane.create(redis, 0, { type: 'concurrent', config: { limit: 3 }, now_us: t_ms * 1000 });
  const batch = lane.newBatch(t_ms * 1000);
  await lane.queue(t_ms * 1000, { batch, from: 0, to: 1, first_ms: t_ms });
  await lane.look(t_ms * 1000);
  const later_us = (t_ms + 91_000) * 1000;
  await lane.receive(later_us, `free ${lane.core} ${batch} 7 7`);
  await lane.queue(later_us, { batch, from: 2, to: 2, first_ms: t_ms });
  const look = await lane.look(later_us);
  assert.deepEqual([look.granted, look.reclaimed], [1, 2]);
  await lane.queue(later_us, { batch, from: 3, to: 3, first_ms: t_ms });
  assert.equal((await lane.look(later_us)).reclaimed, 0);
});
