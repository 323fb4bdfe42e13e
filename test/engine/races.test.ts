// What happens at one moment: the end of a batch while it grows and is cancelled, one key sent by many, a death within a create.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api } from '../helpers/api.ts';
import { dataDir, startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis, until } from '../helpers/redis.ts';
import { freshPath, tasksFor } from './stage.ts';

const THREADS = 4;
const TASKS = 10_000;
/** Under way together at the end; a host that is slow to answer gets no more places. */
const LAST = 100;
const ENDED_MS_MAX = 60_000;
const receiver = await startReceiver();

test('the last outcomes of 10,000 tasks come at once, while tasks are added and a cancel races: one end, exact counts', async (t) => {
  const redis = await startRedis();
  const engine = await startEngine({
    redis_url: `unix://${redis.path}`,
    env: {
      SLUICE_CALLBACK_THREADS: String(THREADS),
    },
  });
  const acme = api(engine, TOKENS.acme);
  const ends: Record<string, number> = {};
  for (const cancels of [false, true, false, true]) {
    const [path, hooks] = [freshPath(), freshPath()];
    const url = receiver.at(path, {});
    const last = receiver.at(`${path}/last`, { hold: true });
    const notifications = { on_finish: { url: receiver.at(`${hooks}/finish`) }, on_success: { url: receiver.at(`${hooks}/success`) } };
    // All but the last have ended; those are under way together.
    const { id } = await acme.create({ notifications, options: { hold: true }, tasks: tasksFor(url, TASKS - LAST) });
    await receiver.heard(path, TASKS - LAST);
    await acme.add(id, { tasks: tasksFor(last, LAST) });
    await receiver.heard(`${path}/last`, LAST);
    await acme.release(id);
    receiver.release(`${path}/last`);
    const adds = Array.from({ length: 10 }, () => acme.ask('POST', `/v1/batches/${id}/tasks`, { body: { tasks: tasksFor(url, 7) } }));
    const cancel = cancels ? acme.ask('POST', `/v1/batches/${id}/cancel`) : null;
    const added = (await Promise.all(adds)).filter(({ status }) => status === 200).length;
    await cancel;
    const batch = await acme.batchWhen(id, ({ stats, status }) => stats.pending === 0 && status !== 'processing', ENDED_MS_MAX);
    const { total, completed, failed, cancelled, pending } = batch.stats;
    assert.equal(total, TASKS + 7 * added, 'what was taken is counted');
    assert.equal(completed + failed + cancelled + pending, total, 'the counts add up');
    const states = await acme.allTasks(id);
    for (const status of ['completed', 'failed', 'cancelled'] as const) {
      assert.equal(states.filter((task) => task.status === status).length, batch.stats[status], `tasks that are ${status}`);
    }
    await receiver.heard(`${hooks}/finish`, 1);
    if (batch.status === 'completed' && failed + cancelled === 0) await receiver.heard(`${hooks}/success`, 1);
    const told = new Set(receiver.to(`${hooks}/finish`).map(({ headers }) => headers['webhook-id']));
    assert.equal(told.size, 1, 'one on_finish');
    const { stats } = (JSON.parse(receiver.to(`${hooks}/finish`)[0]?.body.toString() ?? '') as { batch: { stats: object } }).batch;
    assert.deepEqual({ cancelled: 0, ...stats }, batch.stats, 'it tells the last counts');
    const end = `${batch.status}, ${added} of 10 adds`;
    ends[end] = (ends[end] ?? 0) + 1;
  }
  t.diagnostic(`ended ${JSON.stringify(ends)}`);
});

test('a hundred creates at once with one key make one batch', async () => {
  const redis = await startRedis();
  const engines = await Promise.all([0, 1].map(() => startEngine({ redis_url: `unix://${redis.path}` })));
  const clients = engines.map((engine) => api(engine, TOKENS.acme));
  const url = receiver.at(freshPath(), {});
  const ask = { body: { tasks: tasksFor(url, 50) }, headers: { 'idempotency-key': 'one' } };
  const replies = await Promise.all(
    Array.from({ length: 100 }, (_, i) => (clients[i % 2] ?? assert.fail('two engines')).ask('POST', '/v1/batches', ask)),
  );
  // One that is under way is told so.
  assert.deepEqual(
    [...new Set(replies.map(({ status }) => status))].filter((status) => status !== 409),
    [201],
    'answers',
  );
  const ids = new Set(replies.filter(({ status }) => status === 201).map(({ json }) => (json as { id: string }).id));
  assert.equal(ids.size, 1, 'batches that were told');
  assert.equal((await clients[0]?.batches())?.batches.length, 1, 'batches that there are');
});

test('kill -9 in the middle of creates with keys: repeated, each has made one batch, whole', async (t) => {
  const redis = await startRedis();
  const data_dir = dataDir();
  const options = { redis_url: `unix://${redis.path}`, data_dir };
  const url = receiver.at(freshPath(), {});
  const bodies = Array.from({ length: 12 }, (_, i) => ({
    body: { tasks: tasksFor(url, 1_000 + 500 * i, { execute_after: new Date(Date.now() + 3_600_000).toISOString() }) },
    headers: { 'idempotency-key': `create-${i}` },
  }));
  let answered = 0;
  for (let life = 0; life < 3; life++) {
    const engine = await startEngine(options);
    const acme = api(engine, TOKENS.acme);
    const under_way = bodies.map((ask) =>
      acme.ask('POST', '/v1/batches', ask).then(
        () => (answered += 1),
        () => {},
      ),
    );
    const before = answered;
    await until(async () => answered >= before + 3 * life && (await redis.redis.dbsize()) > 20, 20_000, 'creates to be under way');
    await engine.kill9();
    await Promise.all(under_way);
  }
  const engine = await startEngine(options);
  const acme = api(engine, TOKENS.acme);
  const ids: string[] = [];
  for (const ask of bodies) {
    const reply = await acme.ask('POST', '/v1/batches', ask);
    assert.equal(reply.status, 201, reply.text.slice(0, 500));
    ids.push((reply.json as { id: string }).id);
  }
  const listed = (await acme.batches('?limit=100')).batches;
  assert.deepEqual([...ids].sort(), listed.map(({ id }) => id).sort(), 'one batch for each key');
  for (const [i, id] of ids.entries()) assert.equal((await acme.batch(id)).stats.total, 1_000 + 500 * i, `tasks of batch ${i}`);
  t.diagnostic(`${answered} answers before the kills`);
});
