// The present version on data directories of earlier ones: what they hold is finished, and reads as it did.
import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { Redis } from 'ioredis';
import { type Kept, PORT } from '../fixtures/scene.ts';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startKillableRedis } from './killable-redis.ts';

const FIXTURES = fileURLToPath(new URL('../fixtures', import.meta.url));
const ENDED_MS_MAX = 60_000;
const RELEASES = readdirSync(FIXTURES).filter((name) => name.startsWith('data-'));

assert.ok(RELEASES.length > 0);
for (const release of RELEASES) {
  test(`${release}: every batch in it ends, and those that had ended are as they were`, async () => {
    const kept = JSON.parse(readFileSync(join(FIXTURES, release, 'kept.json'), 'utf8')) as Kept;
    const dir = mkdtempSync(join(tmpdir(), 'sluice-upgrade-'));
    after(() => rmSync(dir, { recursive: true, force: true }));
    cpSync(join(FIXTURES, release, 'appendonlydir'), join(dir, 'appendonlydir'), { recursive: true });
    const redis = await startKillableRedis({ keeps: 'all', dir });
    await moveForward(redis.redis, Date.now() - kept.made_ms);
    const receiver = await startReceiver(PORT);
    const engine = await startEngine({ redis_url: redis.url, env: { SLUICE_HOLDER_SILENCE: '2s', SLUICE_SWEEP_INTERVAL: '1s' } });
    const client = api(engine, TOKENS.acme);
    const { held, running, waiting, limited, completed, failed, cancelled } = kept.batches;

    for (const { id, stats } of [completed, failed, cancelled]) assert.deepEqual((await client.batch(id)).stats, stats, id);
    assert.equal((await client.allTasks(failed.id)).filter(({ status }) => status === 'failed').length, failed.stats.failed);
    await client.release(held.id);
    const retried = await client.ask('POST', `/v1/batches/${failed.id}/retry`);
    assert.equal(retried.status, 200, retried.text);
    for (const { id, stats } of [held, running, waiting, failed]) {
      const ended = await client.ended(id, 'completed', ENDED_MS_MAX);
      assert.deepEqual(ended.stats, { total: stats.total, pending: 0, completed: stats.total, failed: 0, cancelled: 0 }, id);
    }
    // Its tasks may have waited for longer than they may, by now.
    const { stats } = await client.batchWhen(limited.id, (batch) => batch.stats.pending === 0, ENDED_MS_MAX);
    assert.equal(stats.completed + stats.failed, limited.stats.total);
    const late = (await client.allTasks(limited.id)).filter(({ status }) => status === 'failed');
    for (const { id } of late) assert.match((await client.task(id)).result?.error?.code ?? '', /^(queue|validity)_timeout$/);
    await client.taskWhen(kept.single, ({ status }) => status === 'completed', ENDED_MS_MAX);
    const called = new Set(receiver.calls.map(({ id }) => id));
    assert.ok(called.has(kept.single));
    for (const { id, stats } of [held, running, waiting]) {
      const mine = (await client.allTasks(id)).filter((task) => called.has(task.id)).length;
      assert.equal(mine, stats.total - stats.completed, `tasks of ${id} that were called now`);
    }
    await receiver.heard('/hook', 2);
    assert.deepEqual(
      new Set(receiver.to('/hook').map((call) => call.id)),
      new Set([`${running.id}_on_finish_1`, `${running.id}_on_success_1`]),
    );
    const schedule = await client.ask('GET', `/v1/schedules/${kept.schedule}`);
    assert.equal(schedule.status, 200, schedule.text);
    assert.equal(await engine.stop(), 0);
  });
}

/** As if it had been put away a moment ago: expiries keep their distance, and what was due later is due. */
async function moveForward(redis: Redis, ms: number): Promise<void> {
  for (const key of await redis.keys('*:deadlines')) {
    const pairs = await redis.zrange(key, 0, '-1', 'WITHSCORES');
    for (let i = 0; i < pairs.length; i += 2) await redis.zadd(key, Number(pairs[i + 1]) + ms, pairs[i] ?? '');
  }
  for (const key of await redis.keys('*:delayed')) {
    for (const entry of await redis.zrange(key, 0, '-1')) await redis.zadd(key, 1, entry);
  }
}
