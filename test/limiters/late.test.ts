// What a lane does when it hears that tasks started a while after they were granted: their units count as of then.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Lane } from '../helpers/lane.ts';
import { startRedis } from '../helpers/redis.ts';
import { ROWS } from './kinds.ts';

const T = 1_800_000_000_000_000;
const T_MS = T / 1000;
const S = 1_000_000;

const { redis } = await startRedis();

for (const [i, row] of ROWS.entries()) {
  /** A lane that has let five of ten start, at T. */
  const begin = async (more: number): Promise<Lane> => {
    const lane = await Lane.create(redis, 4 * i + more, { type: row.type, config: row.five, now_us: T });
    await lane.queue(T, { batch: lane.newBatch(T), from: 0, to: 9, first_ms: T_MS });
    assert.equal((await lane.look(T)).granted, 5);
    return lane;
  };

  test(`${row.name}: what started late is used from then on${row.timed ? '' : ', which says nothing of slots'}`, async () => {
    const lane = await begin(0);
    await lane.receive(T + 90 * S, `late ${lane.core} ${T_MS} 3`, `late ${lane.core} ${T_MS} 2`);
    assert.equal((await lane.look(T + 90 * S)).granted, 0);
    if (row.timed) assert.equal((await lane.lookAll(T + 150 * S)).granted, 5);
  });

  if (row.timed) {
    test(`${row.name}: what a reset has forgotten does not come back because it started late`, async () => {
      const lane = await begin(2);
      await lane.reset(T + S);
      await lane.receive(T + 2 * S, `late ${lane.core} ${T_MS} 5`);
      assert.equal((await lane.look(T + 2 * S)).granted, 5);
    });
  }
}
