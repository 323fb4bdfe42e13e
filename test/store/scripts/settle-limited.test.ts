// Outcomes of tasks that take from a limiter: what is kept of them, and in which order the limiter hears of them.
import assert from 'node:assert/strict';
import { after, beforeEach, describe, test } from 'node:test';
import { keys } from '../../../src/store/keys.ts';
import { readSlices, relay } from '../../../src/store/outbox.ts';
import type { Claimed, Verdict } from '../../../src/store/partition.ts';
import type { TaskLimit } from '../../../src/store/records.ts';
import { grant, limiter } from '../../helpers/limited-scene.ts';
import { listTasks } from '../../helpers/listing.ts';
import { ACCOUNT, startRig } from '../../helpers/rig.ts';

const rig = await startRig();
after(() => rig.redis.disconnect());
beforeEach(() => rig.reset());

const DEAD_MS = 60_000;

/** What the limiter lets start now, by one holder. */
async function started(): Promise<Claimed[]> {
  await relay(rig.redis, 0);
  await grant(rig.redis, rig.now_ms);
  await relay(rig.redis, 0);
  return rig.claim('h1', 16);
}

/** A batch of tasks that all take from this limiter. */
function batchOf(limit: TaskLimit, tasks: number): Promise<string> {
  return rig.create({ tasks: Array.from({ length: tasks }, () => ({ limit })) });
}

/** Kinds of the messages that wait for the limiter, in order. */
async function told(): Promise<(string | undefined)[]> {
  const { slices } = await readSlices(rig.redis, 0);
  return slices.flatMap(({ messages }) => messages.map((message) => String(message).split(' ')[1]));
}

describe('partition/settle of limited tasks', () => {
  test('a task keeps one result, however often its limiter’s pause gives it back', async () => {
    const core = await batchOf(await limiter(rig, 'many', 'window', { limit: 100, interval: 1 }), 4);
    const segment = keys.segment(0, core, 0);
    const sizes: number[] = [];
    for (let round = 0; round < 6; round++) {
      const tasks = await started();
      assert.equal(tasks.length, 4, `round ${round}`);
      const results = tasks.map(({ flight, index }) => ({
        flight,
        index,
        verdict: 'k' as Verdict,
        delay_ms: 0,
        result: `["${round}${index}"]`,
      }));
      // One at a time, and all together: a page's results come in either way.
      if (round % 2 === 0) for (const one of results) await rig.settleAll('h1', [one]);
      else await rig.settleAll('h1', results);
      sizes.push(await rig.redis.hstrlen(segment, 'r0'));
    }
    assert.deepEqual(
      sizes,
      sizes.map(() => sizes[0]),
    );
    const page = await listTasks(rig.redis, ACCOUNT, core, { status: null, limit: 4, offset: 0 });
    assert.deepEqual(
      page?.rows.map(({ result }) => result),
      ['["50"]', '["51"]', '["52"]', '["53"]'],
    );
  });

  for (const verdict of ['r', 'k', 's'] as const) {
    test(`a slot is free before its task queues again after ${verdict}`, async () => {
      await batchOf(await limiter(rig, 'slots', 'concurrent', { limit: 2 }), 2);
      const tasks = await started();
      assert.equal(tasks.length, 2);
      await rig.settle('h1', tasks, verdict, verdict === 's' ? { result: '' } : {});
      assert.deepEqual(await told(), ['free', 'queue', 'queue']);
    });
  }

  test('a slot is free before its task queues again after its holder was lost', async () => {
    await batchOf(await limiter(rig, 'slots', 'concurrent', { limit: 2 }), 2);
    assert.equal((await started()).length, 2);
    for (let gone_ms = 0; gone_ms < DEAD_MS && (await told()).length === 0; gone_ms += 2_000) {
      rig.pass(2_000);
      await rig.tick('h2');
    }
    assert.deepEqual(await told(), ['free', 'queue']);
  });

  test('no more run than a limiter has slots, wherever between two messages it is looked at', async () => {
    const limit = await limiter(rig, 'slots', 'concurrent', { limit: 3 });
    await batchOf(limit, 2);
    const tasks = await started();
    await rig.settle('h1', tasks.slice(0, 1), 'r');
    const running = tasks.slice(1).map(({ flight, index }) => `${flight.core} ${index}`);
    await batchOf(limit, 4);
    for (let looks = 0; looks < 12; looks++) {
      await relay(rig.redis, 0, { messages_max: 1, rounds_max: 1 });
      await grant(rig.redis, rig.now_ms);
      running.push(...(await rig.claim('h1', 16)).map(({ flight, index }) => `${flight.core} ${index}`));
      assert.ok(running.length <= 3, running.join(', '));
    }
    assert.equal(new Set(running).size, 3);
  });
});
