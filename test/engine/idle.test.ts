// An idle engine costs Redis next to nothing: it waits for bells and looks around now and then.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { monitor } from '../helpers/monitor.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis } from '../helpers/redis.ts';
import { allEnded, createLoad } from './load.ts';

const COMMANDS_PER_SECOND_MAX = 20;
const WATCH_MS = 10_000;

/** Calls by command, as the server counts them; those that scripts make are among them. */
function commandCalls(stats: string): Map<string, number> {
  return new Map([...stats.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)].map(([, name = '', calls]) => [name, Number(calls)]));
}

test('an idle engine sends fewer than 20 commands a second to Redis', async (t) => {
  const redis = await startRedis();
  const receiver = await startReceiver();
  const client = api(await startEngine({ redis_url: `unix://${redis.path}` }), TOKENS.acme);
  // Idle after work, not before the first: whatever work leaves running shows too.
  await allEnded(client, await createLoad(client, receiver, 16, 50), 20_000);

  const seen = new Map<string, number>();
  let in_scripts = 0;
  const stopWatching = await monitor(redis.path, ({ name, source }) => {
    if (source === 'lua') in_scripts += 1;
    else seen.set(name, (seen.get(name) ?? 0) + 1);
  });
  await redis.redis.config('RESETSTAT');
  const began_ms = performance.now();
  await new Promise((resolve) => setTimeout(resolve, WATCH_MS)); // The measurement itself.
  const counted = commandCalls(await redis.redis.info('commandstats'));
  const seconds = (performance.now() - began_ms) / 1_000;
  stopWatching();

  // The server counts the commands of scripts too; MONITOR tells them apart.
  const all = [...counted.values()].reduce((sum, calls) => sum + calls, 0);
  const own = 1; // CONFIG RESETSTAT counts itself; INFO does not yet.
  const rate = (all - in_scripts - own) / seconds;
  const busiest = [...seen].toSorted(([, a], [, b]) => b - a).slice(0, 5);
  t.diagnostic(
    `${rate.toFixed(1)} commands a second: ${busiest.map(([name, calls]) => `${name} ${(calls / seconds).toFixed(1)}`).join(', ')}`,
  );
  assert.ok(all > 0 && rate >= 0);
  assert.ok(rate < COMMANDS_PER_SECOND_MAX, `${rate} commands a second`);
});
