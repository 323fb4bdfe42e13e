// Two processes at the same schedules, one of them killed again and again: every tick is decided once, by the books of
// Redis, and every run is made once, by the receiver's.
import assert from 'node:assert/strict';
import { partitionOf } from '../../src/base/id.ts';
import { createLog } from '../../src/base/log.ts';
import { openStore } from '../../src/store/connect.ts';
import { keys } from '../../src/store/keys.ts';
import { api } from '../helpers/api.ts';
import { type Engine, startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { until } from '../helpers/redis.ts';

const SECOND_MS = 1_000;
const CREATES_AT_ONCE = 20;

export interface Race {
  redis_url: string;
  schedules: number;
  /** Seconds that the schedules tick for. */
  seconds: number;
  kills: number;
}

export async function race({ redis_url, schedules, seconds, kills }: Race): Promise<{ runs: number; skipped: number }> {
  const receiver = await startReceiver();
  const start = (roles: string): Promise<Engine> => startEngine({ redis_url, env: { SLUICE_ROLES: roles, SLUICE_CALLBACK_THREADS: '1' } });
  const [front, first] = await Promise.all([start('api,cron,callbacks'), start('api,cron')]);
  const client = api(front, TOKENS.acme);
  const path = '/race';
  const target = receiver.at(path);
  const body = { cron: '* * * * * *', timezone: 'UTC', task_template: { target } };
  const cores: string[] = [];
  while (cores.length < schedules) {
    const made = await Promise.all(Array.from({ length: CREATES_AT_ONCE }, () => client.ask('POST', '/v1/schedules', { body })));
    for (const { json } of made) cores.push((json as { id: string }).id.slice('sched_'.length));
  }
  const began = receiver.to(path).length;
  let victim = first;
  for (let kill = 1; kill <= kills; kill++) {
    await receiver.heard(path, began + Math.floor((schedules * seconds * kill) / (kills + 1)));
    await victim.kill9();
    victim = await start('api,cron');
  }
  await receiver.heard(path, began + schedules * seconds);
  await Promise.all(cores.map((core) => client.ask('PATCH', `/v1/schedules/sched_${core}`, { body: { enabled: false } })));
  const store = await openStore({ redis_url, data_dir: front.data_dir, partitions: 16, log: createLog({ level: 'silent' }) });
  try {
    return await count(store, cores, () => receiver.to(path).map(({ id }) => id));
  } finally {
    await store.close();
  }
}

/** Each tick from the first to the last of a schedule has a run or was counted as skipped, and every run was called. */
async function count(store: Awaited<ReturnType<typeof openStore>>, cores: readonly string[], called: () => string[]) {
  let skipped = 0;
  const ids: string[] = [];
  for (const core of cores) {
    const partition = partitionOf(core);
    const flat = await store.client.zrange(keys.scheduleRuns(partition, core), 0, '-1', 'WITHSCORES');
    const [total, skips, created, next] = (await store.client.hmget(keys.schedule(partition, core), 'n', 'i', 't', 'v')).map(Number);
    const times = flat.filter((_, i) => i % 2 === 1).map(Number);
    assert.equal(new Set(times).size, times.length, `${core} fired a tick twice`);
    assert.equal(times.length, total);
    assert.ok(created !== undefined && next !== undefined);
    const expected = ((times.at(-1) ?? 0) - Math.floor(created / SECOND_MS) * SECOND_MS) / SECOND_MS;
    // Ticks skipped behind the last run count too, those before it are at most that many.
    assert.ok(
      times.length <= expected + 1 && times.length + (skips ?? 0) >= expected - 1,
      `${core}: ${times.length} runs of ${expected} ticks`,
    );
    skipped += skips ?? 0;
    for (let i = 0; i < flat.length; i += 2) {
      const [, batch, index] = (flat[i] ?? '').split(',');
      ids.push(`task_${batch}_${index}`);
    }
  }
  assert.equal(new Set(ids).size, ids.length);
  await until(() => new Set(called()).size >= ids.length, 20_000, 'every run to be called');
  assert.deepEqual([...new Set(called())].toSorted(), ids.toSorted());
  return { runs: ids.length, skipped };
}
