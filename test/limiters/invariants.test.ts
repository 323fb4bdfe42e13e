// What every limiter keeps, whatever happens (semantics of rate limiters, I1 to I12):
//   I1 to I4  no more starts than the config allows      I5  every task starts, fails in time or is dropped, once
//   I6  first in, first out      I7  the time that is told is the next at which something can be done, to the µs
//   I8  no hot loop      I9  a clock that steps back raises no rate and stops nothing for longer than an interval
//   I10 the log of a window is short      I11 all of it also after a PATCH      I12 a read changes nothing
//
// Each scenario is a random life of one limiter (scenario.ts). A failure names its seed: LIMITER_SEED=… runs that one again, alone.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startRedis } from '../helpers/redis.ts';
import { runs } from '../helpers/runs.ts';
import { ROWS } from './kinds.ts';
import { Scenario } from './scenario.ts';

const SCENARIOS = runs(150);
const AT_ONCE = 32;
const FIRST_SEED = Number(process.env.LIMITER_FIRST_SEED ?? Math.floor(Date.now() / 1000) % 1_000_000_000);
const ONLY = process.env.LIMITER_SEED;

for (const row of ROWS) {
  test(`a limiter never breaks its word: ${row.name}`, async (t) => {
    const { redis } = await startRedis();
    const seeds = ONLY === undefined ? Array.from({ length: SCENARIOS }, (_, i) => FIRST_SEED + i) : [Number(ONLY)];
    t.diagnostic(`${seeds.length} scenarios from seed ${seeds[0]}`);
    for (let i = 0; i < seeds.length; i += AT_ONCE) {
      await redis.flushall();
      await Promise.all(
        seeds.slice(i, i + AT_ONCE).map(async (seed, k) => {
          const scenario = new Scenario(redis, row, seed);
          try {
            await scenario.run(2 * k);
          } catch (error) {
            assert.fail(`LIMITER_SEED=${seed}: ${error instanceof Error ? error.message : String(error)}\n${scenario.log.join('\n')}`);
          }
        }),
      );
    }
  });
}
