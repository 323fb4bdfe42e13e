// Progress streams beyond one process: two engines on one Redis, one that is killed, readers that hang, connections that break.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api } from '../helpers/api.ts';
import { type EngineOptions, startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis, until } from '../helpers/redis.ts';
import { isProgress, isTask, openEvents, openSocket, type Reading } from '../helpers/stream.ts';
import { freshPath, inSeconds, tasksFor } from './stage.ts';

const PLACE_MS = 2_000;
const redis = await startRedis();
const receiver = await startReceiver();
const options: EngineOptions = { redis_url: `unix://${redis.path}`, env: { SLUICE_STREAM_PLACE: `${PLACE_MS / 1_000}` } };
const [one, other, third] = await Promise.all([startEngine(options), startEngine(options), startEngine(options)]);
const client = api(one, TOKENS.acme);

const socket = (engine: { url: string }, id: string, query = ''): Promise<Reading> =>
  openSocket(engine.url, `/v1/batches/${id}/stream${query}`, TOKENS.acme);
const events = (engine: { url: string }, id: string, query = ''): Promise<Reading> =>
  openEvents(engine.url, `/v1/batches/${id}/events${query}`, TOKENS.acme);
const refused = (opening: Promise<Reading>): Promise<number> =>
  opening.then(
    () => 0,
    (error: { status: number }) => error.status,
  );
const metric = async (url: string, series: string): Promise<number> => {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(
    text
      .split('\n')
      .find((line) => line.startsWith(`${series} `))
      ?.split(' ')[1] ?? 0,
  );
};

/** A batch whose tasks wait, and whose list grows only by what the test adds. */
async function quiet(count = 1): Promise<string> {
  const { id } = await client.create({ tasks: tasksFor(receiver.url, count, { execute_after: inSeconds(600) }) });
  return id;
}

test('streams on two engines tell the same, whichever does the work; their places are counted together', async () => {
  const path = freshPath();
  const { id } = await client.create({ tasks: tasksFor(receiver.at(path, { hold: true }), 200) });
  const readings = await Promise.all([one, other, one, other, one, other, one, other, one, other].map((engine) => socket(engine, id)));
  assert.deepEqual(await Promise.all([one, other].map((engine) => refused(socket(engine, id)))), [429, 429]);
  await Promise.all(readings.map((reading) => reading.until(() => true)));
  receiver.release(path);
  assert.deepEqual(new Set(await Promise.all(readings.map(({ ended }) => ended))), new Set([1000]));
  const batch = await client.batch(id);
  for (const { frames } of readings) {
    const last = frames.at(-1);
    assert.ok(last !== undefined && isProgress(last));
    assert.deepEqual([last.status, last.stats, last.timestamp], ['completed', batch.stats, batch.updated_at]);
  }
});

test('a place is kept while its stream is open, and free soon after its process was killed', async (t) => {
  const id = await quiet();
  const kept = await Promise.all(Array.from({ length: 4 }, () => socket(one, id)));
  const lost = await Promise.all(Array.from({ length: 6 }, (_, i) => (i % 2 === 0 ? socket : events)(third, id)));
  const renewed_ms = performance.now() + 1.5 * PLACE_MS;
  await until(() => performance.now() > renewed_ms, 2 * PLACE_MS, 'places to end where nobody renews them');
  assert.equal(await refused(socket(other, id)), 429);
  await third.kill9();
  const killed_ms = performance.now();
  assert.deepEqual(new Set(await Promise.all(lost.map(({ ended }) => ended))), new Set([1006, -1]));
  const reopened: Reading[] = [];
  const all = async (): Promise<boolean> => {
    while (reopened.length < 6) {
      const reading = await socket(other, id).catch(() => null);
      if (reading === null) return false;
      reopened.push(reading);
    }
    return true;
  };
  await until(all, PLACE_MS + 2_000, 'six places to be free');
  t.diagnostic(`${Math.round(performance.now() - killed_ms)} ms after the kill, with places of ${PLACE_MS} ms`);
  assert.equal(await refused(socket(one, id)), 429);
  for (const reading of [...kept, ...reopened]) reading.close();
});

test('readers that hang are closed, the others lose nothing', async () => {
  const before = await metric(one.url, 'sluice_streams_closed_total{reason="slow"}');
  const path = freshPath();
  const { id } = await client.create({ tasks: tasksFor(receiver.at(path, {}), 1), options: { hold: true } });
  const [hanging, silent, reading] = await Promise.all([
    socket(one, id, '?tasks=true'),
    events(one, id, '?tasks=true'),
    socket(one, id, '?tasks=true'),
  ]);
  await Promise.all([hanging, silent, reading].map((each) => each.until(() => true)));
  hanging.pause();
  silent.pause();
  // About 250 bytes a task: each round is half a megabyte, of which the kernel keeps some itself.
  for (let round = 1; (await metric(one.url, 'sluice_streams_closed_total{reason="slow"}')) < before + 2; round++) {
    assert.ok(round < 60, 'both are closed');
    await client.add(id, { tasks: tasksFor(receiver.url + path, 2_000) });
    await reading.until((frame) => isProgress(frame) && frame.stats.completed >= round * 2_000);
  }
  hanging.resume();
  silent.resume();
  assert.deepEqual(await Promise.all([hanging.ended, silent.ended]), [1013, -1]);
  await client.release(id);
  assert.equal(await reading.ended, 1000);
  const { stats } = await client.batch(id);
  assert.equal(reading.code, 1000);
  const told = reading.frames.filter(isTask).length;
  assert.ok(
    told >= stats.total - 1 && !reading.frames.some((frame) => frame.type === 'snapshot' && frame.gap),
    `${told} of ${stats.total}`,
  );
});

test('hints that are lost show as a gap, and every stream comes to its end', async (t) => {
  const path = freshPath();
  const { id } = await client.create({ tasks: tasksFor(receiver.at(path, { delay_ms: 2 }), 6_000) });
  const readings = await Promise.all([
    socket(one, id, '?tasks=true'),
    socket(other, id, '?tasks=true'),
    events(one, id),
    socket(other, id),
  ]);
  let kills = 0;
  const ended = Promise.all(readings.map((reading) => reading.ended));
  let over = false;
  void ended.then(() => {
    over = true;
  });
  const killing = async (): Promise<boolean> => {
    kills += Number(await redis.redis.call('CLIENT', 'KILL', 'TYPE', 'pubsub'));
    return over;
  };
  await until(killing, 60_000, 'all streams to end');
  assert.deepEqual(await ended, [1000, 1000, 0, 1000]);
  const batch = await client.batch(id);
  for (const { frames } of readings) {
    const last = frames.at(-1);
    assert.ok(last !== undefined && isProgress(last));
    assert.deepEqual([last.status, last.stats], ['completed', batch.stats]);
  }
  const [first] = readings;
  assert.ok(first !== undefined);
  const told = first.frames.filter(isTask).length;
  const gaps = first.frames.filter((frame) => frame.type === 'snapshot' && frame.gap === true).length;
  t.diagnostic(`${kills} connections cut; ${told} of 6000 tasks told, ${gaps} gaps`);
  assert.ok(gaps > 0 || told === 6_000);
});

test('SIGTERM closes streams with 1001, frees their places, and takes no new ones', async () => {
  const id = await quiet();
  const last = await startEngine(options);
  const [a, b] = await Promise.all([socket(last, id), events(last, id)]);
  await Promise.all([a, b].map((reading) => reading.until(() => true)));
  const stopped = last.stop();
  assert.deepEqual(await Promise.all([a.ended, b.ended]), [1001, 0]);
  assert.equal(await stopped, 0);
  const readings = await Promise.all(Array.from({ length: 10 }, () => socket(one, id)));
  for (const reading of readings) reading.close();
});

test('a process without the role answers 503, and its tickets are good elsewhere', async () => {
  const id = await quiet();
  const without = await startEngine({ ...options, env: { ...options.env, SLUICE_ROLES: 'api' } });
  assert.equal(await refused(socket(without, id)), 503);
  const { json } = await api(without, TOKENS.acme).ask('POST', `/v1/batches/${id}/stream-tickets`);
  const { ticket } = json as { ticket: string };
  const reading = await openSocket(one.url, `/v1/batches/${id}/stream?ticket=${ticket}`, null);
  await reading.until((frame) => frame.type === 'snapshot');
  reading.close();
});
