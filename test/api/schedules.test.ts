// Patching a schedule some of whose ticks are overdue, by a clock that the test turns.
import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import { makeApi } from '../../src/api/api.ts';
import type { Call } from '../../src/api/call.ts';
import type { ApiContext } from '../../src/api/context.ts';
import type { SchedulePatch } from '../../src/schema/types.gen.ts';
import { ACCOUNT, startRig } from '../helpers/rig.ts';
import { LEAD_MS, Ticks } from '../helpers/ticks.ts';

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;

const rig = await startRig();
after(() => rig.redis.disconnect());
let ticks = new Ticks(rig);
beforeEach(async () => {
  await rig.reset();
  ticks = new Ticks(rig);
});

const context = {
  client: rig.redis,
  admit: () => {},
  schedule_lead_ms: LEAD_MS,
  durability: { local: true, confirm: async () => true, confirmHome: async () => true, close: () => {} },
} as unknown as ApiContext;
const api = makeApi(context);

async function patch(core: string, body: SchedulePatch): Promise<void> {
  const call = {
    account_id: ACCOUNT,
    params: { schedule_id: `sched_${core}` },
    query: {},
    body,
    now_ms: rig.now_ms,
    idempotency_key: null,
  };
  await api.patchSchedule(call as unknown as Call);
}

/** Minutes after the start for which there is a run. */
async function minutes(core: string, t0: number): Promise<number[]> {
  return (await ticks.runs(core)).map((ms) => (ms - t0) / MINUTE_MS);
}

const PATCHES: Record<string, (now_ms: number) => SchedulePatch> = {
  'a later end': (now_ms) => ({ end_at: new Date(now_ms + 3_600_000).toISOString() }),
  'an earlier start': (now_ms) => ({ start_at: new Date(now_ms - 3_600_000).toISOString() }),
  'the expression that it has': () => ({ cron: '* * * * *', timezone: 'UTC', end_at: '2100-01-01T00:00:00Z' }),
};

for (const [name, of] of Object.entries(PATCHES)) {
  test(`ticks that were missed are made up for also where a schedule gets ${name} before`, async () => {
    const t0 = rig.now_ms;
    const core = await ticks.make({ cron: '* * * * *' });
    rig.pass(10 * MINUTE_MS + SECOND_MS);
    await patch(core, of(rig.now_ms));
    await ticks.look();
    assert.deepEqual(
      await minutes(core, t0),
      Array.from({ length: 10 }, (_, i) => i + 1),
    );
  });
}

test('another expression, another beginning after now, and a schedule that is enabled begin after now', async () => {
  const t0 = rig.now_ms;
  const [other, later, enabled] = [await ticks.make(), await ticks.make(), await ticks.make({ enabled: false })];
  rig.pass(10 * MINUTE_MS + SECOND_MS);
  await patch(other, { cron: '*/2 * * * *' });
  await patch(later, { start_at: new Date(t0 + 13 * MINUTE_MS).toISOString() });
  await patch(enabled, { enabled: true });
  await ticks.run(4 * MINUTE_MS);
  assert.deepEqual(await minutes(other, t0), [12, 14]);
  assert.deepEqual(await minutes(later, t0), [13, 14]);
  assert.deepEqual(await minutes(enabled, t0), [11, 12, 13, 14]);
});
