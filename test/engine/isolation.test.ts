// One account's flood or one host's silence leaves the others alone.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis, until } from '../helpers/redis.ts';

const redis = await startRedis();
const engine = await startEngine({ redis_url: `unix://${redis.path}`, env: { SLUICE_CALLBACKS_PER_THREAD: '400' } });
const [acme, rival] = [api(engine, TOKENS.acme), api(engine, TOKENS.rival)];
const [silent, lively] = [await startReceiver(), await startReceiver()];

test('a host that never answers takes half of the places at most, and others run beside it', async () => {
  const hook = silent.at('/hang', { hold: true });
  const flood = await acme.create({ tasks: Array.from({ length: 2_000 }, () => ({ target: hook, timeout: 600 })) });
  await silent.heard('/hang', 200);
  const other = lively.at('/other', { status: 200 });
  const beside = await Promise.all([
    rival.create({ tasks: Array.from({ length: 50 }, () => ({ target: other })) }),
    acme.create({ tasks: Array.from({ length: 50 }, () => ({ target: other })) }),
  ]);
  await rival.ended(beside[0].id, 'completed');
  await acme.ended(beside[1].id, 'completed');
  // Half of the places, and what a second claim under way at the time may bring.
  assert.ok(silent.to('/hang').length <= 200 + 128, `${silent.to('/hang').length} of 400`);
  silent.release('/hang');
  await acme.ended(flood.id, 'completed', 30_000);
  assert.equal(silent.to('/hang').length, 2_000);
});

test('work of one account does not wait behind what another had first', async () => {
  const hook = lively.at('/slow', { delay_ms: 20 });
  const flood = await Promise.all(
    Array.from({ length: 20 }, () => acme.create({ tasks: Array.from({ length: 200 }, () => ({ target: hook })) })),
  );
  const single = await rival.create({ tasks: [{ target: lively.at('/rival', { status: 200 }) }] });
  await rival.ended(single.id, 'completed');
  const pending = await Promise.all(flood.map(async ({ id }) => (await acme.batch(id)).stats.pending));
  assert.ok(pending.reduce((a, b) => a + b, 0) > 0, 'the flood was over already');
  await Promise.all(flood.map(({ id }) => acme.ended(id, 'completed', 60_000)));
});

test('a host that is down is tried by a probe only; its waiting tasks burn no attempts', async () => {
  const dead = `http://127.0.0.1:${await closedPort()}`;
  const batch = await acme.create({
    tasks: Array.from({ length: 300 }, () => ({ target: `${dead}/down`, retry: { max_retries: 0 } })),
  });
  const broken = async (): Promise<number> => {
    const text = await (await fetch(`${engine.url}/metrics`)).text();
    return Number(/^sluice_origins_broken (\d+)$/m.exec(text)?.[1] ?? 0);
  };
  const seen = await acme.batchWhen(batch.id, ({ stats }) => stats.failed >= 20);
  assert.ok(seen.stats.failed <= 300);
  await until(async () => (await broken()) === 1, 10_000, 'the metric to tell of the broken host');
  const again = await acme.create({ tasks: Array.from({ length: 100 }, () => ({ target: `${dead}/down`, retry: { max_retries: 0 } })) });
  const probed = await acme.batchWhen(again.id, ({ stats }) => stats.failed >= 1, 20_000);
  assert.ok(probed.stats.failed <= 3, `${probed.stats.failed} of 100 were tried`);
});

/** A port that nothing listens on. */
async function closedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
