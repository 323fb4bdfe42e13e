// What a caller sees of DURABILITY, on a real master with and without its replica.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type AskOptions, api, type Client, type Reply } from '../helpers/api.ts';
import { type Engine, startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { until } from '../helpers/redis.ts';
import { startReplica, startTcpRedis } from '../helpers/tcp-redis.ts';

const master = await startTcpRedis();
const redis_url = `redis://127.0.0.1:${master.port}`;
const receiver = await startReceiver();
const start = (mode: string): Promise<Engine> => startEngine({ redis_url, env: { SLUICE_DURABILITY: mode } });
const [replicated, strict] = (await Promise.all([start('replicated'), start('strict')])).map((engine) => ({
  engine,
  client: api(engine, TOKENS.acme),
}));
assert.ok(replicated && strict);

const task = { target: receiver.at('/here', {}) };
const batch = { tasks: [task], options: { hold: true } };

let limiters = 0;
const limiter = (): object => {
  limiters += 1;
  return { name: `limiter-${limiters}`, type: 'concurrent', config: { limit: 1 } };
};

/** The requests that admit work, or what work hangs on; the batch that is added to was made before. */
async function admit(client: Client, id: string, more: AskOptions = {}): Promise<Reply[]> {
  return Promise.all([
    client.ask('POST', '/v1/batches', { body: batch, ...more }),
    client.ask('POST', '/v1/tasks', { body: task, ...more }),
    client.ask('POST', `/v1/batches/${id}/tasks`, { body: { tasks: [task] }, ...more }),
    client.ask('POST', '/v1/rate-limiters', { body: limiter(), ...more }),
  ]);
}

const answers = (replies: readonly Reply[]) => replies.map(({ status, headers }) => [status, headers['x-sluice-durability']]);

async function degraded({ url }: Engine): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(/^sluice_durability_degraded_total (\d+)$/m.exec(text)?.[1] ?? 0);
}

let id = '';

test('without a replica `replicated` accepts work, says that it is on one machine, and counts it', async () => {
  const made = await replicated.client.ask('POST', '/v1/batches', { body: batch });
  id = (made.json as { id: string }).id;
  const replies = await admit(replicated.client, id);
  assert.deepEqual(answers([made, ...replies]), [
    [201, 'local'],
    [201, 'local'],
    [201, 'local'],
    [200, 'local'],
    [201, 'local'],
  ]);
  assert.equal(await degraded(replicated.engine), 5);
  assert.equal((await replicated.client.ask('GET', `/v1/batches/${id}`)).headers['x-sluice-durability'], undefined);
});

test('without a replica `strict` accepts nothing', async () => {
  for (const { status, headers, json } of await admit(strict.client, id)) {
    assert.deepEqual([status, headers['retry-after']], [503, '1']);
    assert.equal((json as { error: { code: string } }).error.code, 'unavailable');
  }
});

test('with a replica both accept; one that is silent is a 503 after a quarter of a second, and the same key finds the work', async (t) => {
  const replica = await startReplica(master);
  for (const { client } of [replicated, strict]) {
    const whole = async (): Promise<boolean> =>
      answers(await admit(client, id)).every(([status, header]) => Number(status) <= 201 && header === undefined);
    await until(whole, 5_000, 'the replica to be seen');
  }
  const counted = await degraded(replicated.engine);
  replica.freeze();
  t.after(() => replica.thaw());
  const keyed = (name: string): AskOptions => ({ headers: { 'idempotency-key': name } });
  const body = limiter();
  const made = (): Promise<Reply> => replicated.client.ask('POST', '/v1/rate-limiters', { body, ...keyed('limiter') });
  assert.equal((await made()).status, 503);
  const began_ms = performance.now();
  const refused = await Promise.all(
    [replicated, strict].map(({ client }, i) => client.ask('POST', '/v1/batches', { body: batch, ...keyed(`k${i}`) })),
  );
  const took_ms = performance.now() - began_ms;
  assert.deepEqual(answers(refused), [
    [503, undefined],
    [503, undefined],
  ]);
  assert.ok(took_ms >= 240 && took_ms < 600, `${took_ms} ms`);
  replica.thaw();
  for (const [i, { client }] of [replicated, strict].entries()) {
    let again: Reply | null = null;
    const found = async (): Promise<boolean> => {
      again = await client.ask('POST', '/v1/batches', { body: batch, ...keyed(`k${i}`) });
      return again.status === 201;
    };
    await until(found, 5_000, 'the replica to be back');
    assert.equal((again as Reply | null)?.headers['idempotent-replayed'], 'true');
  }
  const limiter_made = await made();
  assert.equal(limiter_made.status, 201, limiter_made.text);
  const { status } = await replicated.client.ask('POST', '/v1/rate-limiters', { body });
  assert.equal(status, 409, 'it was made once, and has its name');
  assert.equal(await degraded(replicated.engine), counted);
});
