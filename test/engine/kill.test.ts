// Whoever dies in the middle of the work, engine, Redis or thread: no task is lost, none is counted twice, and only what
// was in flight at that moment is called twice.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { api, type Client } from '../helpers/api.ts';
import { dataDir, type Engine, type EngineOptions, embeddedPid, startEngine, TOKENS } from '../helpers/engine.ts';
import { type Receiver, startReceiver } from '../helpers/receiver.ts';
import { until } from '../helpers/redis.ts';
import { allEnded, audit, completed, createLoad, type Load } from './load.ts';

/** An origin never gets more than half of what is free, so there are far more places than the thousand that are wanted in flight. */
const IN_FLIGHT = 4_096;
const ENV = {
  SLUICE_CALLBACK_THREADS: '1',
  SLUICE_CALLBACKS_PER_THREAD: String(IN_FLIGHT),
  SLUICE_CONNECTIONS_PER_ORIGIN: String(IN_FLIGHT),
  SLUICE_HOLDER_SILENCE: '3s',
  SLUICE_SWEEP_INTERVAL: '1s',
};
/** A claim takes whole pages of 16 tasks from each of 16 partitions, so there may be a few more than places. */
const IN_FLIGHT_MAX = IN_FLIGHT + 16 * 16;
const RECOVERED_MS_MAX = 30_000;

const start = (options: EngineOptions): Promise<Engine> => startEngine({ ...options, env: { ...ENV, ...options.env } });
const acmeOf = (engine: Engine): Client => api(engine, TOKENS.acme);
const unanswered = (receiver: Receiver, { path }: Load): Set<string> =>
  new Set(
    receiver
      .to(path)
      .filter((call) => !call.answered)
      .map(({ id }) => id),
  );

test('kill -9 of the engine with a thousand callbacks in flight, and a restart on the same data directory', async (t) => {
  const receiver = await startReceiver();
  const data_dir = dataDir();
  const first = await start({ data_dir });
  // Slow enough that a thousand at a time are worth it.
  receiver.at('/engine-dies', { delay_ms: 20 });
  const load = await createLoad(acmeOf(first), receiver, 10, 1_000, '/engine-dies');
  await receiver.heard(load.path, 3_000);
  receiver.at(load.path, { hold: true });
  await until(() => receiver.held().length >= 1_000, 20_000, 'a thousand callbacks in flight');
  const answered = (): number => receiver.to(load.path).filter((call) => call.answered).length;
  const calm = async (): Promise<boolean> => {
    const counted = await completed(acmeOf(first), load);
    return counted === answered() && counted + receiver.held(load.path).length === receiver.to(load.path).length;
  };
  await until(calm, 5_000, 'all that is not held to be answered and counted');
  await first.kill9();
  // What it had written reaches the receiver even now.
  await until(() => receiver.held().length === 0, 5_000, 'the connections of the dead to close');
  const in_flight = unanswered(receiver, load);
  receiver.at(load.path, {});
  const second = await start({ data_dir });
  await allEnded(acmeOf(second), load, RECOVERED_MS_MAX);
  const { repeats, repeated_calls } = await audit(acmeOf(second), receiver, load);
  t.diagnostic(`${in_flight.size} in flight at the kill, ${repeated_calls} called again`);
  assert.ok(in_flight.size >= 1_000 && in_flight.size <= IN_FLIGHT_MAX, String(in_flight.size));
  assert.deepEqual([...repeats.keys()].toSorted(), [...in_flight].toSorted());
  assert.equal(repeated_calls, in_flight.size);
  // The call that nobody heard the end of was an attempt.
  const numbers = receiver.to(load.path).map(({ id, attempt }) => `${id} ${attempt}`);
  assert.equal(new Set(numbers).size, numbers.length);
});

test('kill -9 of the embedded Redis under load: the engine starts it again and goes on', async (t) => {
  const receiver = await startReceiver();
  receiver.at('/redis-dies', { delay_ms: 20 });
  const engine = await start({});
  const killed = embeddedPid(engine.data_dir);
  assert.ok(killed !== null);
  const load = await createLoad(acmeOf(engine), receiver, 10, 1_000, '/redis-dies');
  await receiver.heard(load.path, 2_000);
  process.kill(killed, 'SIGKILL');
  await allEnded(acmeOf(engine), load, RECOVERED_MS_MAX);
  const { repeated_calls } = await audit(acmeOf(engine), receiver, load);
  assert.notEqual(embeddedPid(engine.data_dir), killed);
  t.diagnostic(`${repeated_calls} called again`);
  assert.ok(repeated_calls <= IN_FLIGHT_MAX, `${repeated_calls} calls were repeated`);
  assert.equal(await engine.stop(), 0);
});

test('SIGTERM under load: what runs ends, nothing is lost and nothing is called twice', async () => {
  const receiver = await startReceiver();
  const data_dir = dataDir();
  const first = await start({ data_dir });
  const path = '/drain';
  receiver.at(path, { delay_ms: 200 });
  const load = await createLoad(acmeOf(first), receiver, 10, 400, path);
  await receiver.heard(path, 500);
  assert.equal(await first.stop(), 0);
  const heard = receiver.to(path).length;
  assert.ok(heard < load.tasks, 'it stopped in the middle');
  assert.deepEqual(unanswered(receiver, load), new Set());
  assert.equal(embeddedPid(data_dir), null);
  // The next engine begins at once; what it calls has no answer until the books of the first one are read.
  receiver.at(path, { hold: true });
  const second = await start({ data_dir });
  assert.equal(await completed(acmeOf(second), load), heard);
  receiver.release(path);
  await allEnded(acmeOf(second), load, RECOVERED_MS_MAX);
  assert.equal((await audit(acmeOf(second), receiver, load)).repeated_calls, 0);
});

test('SIGTERM: what still runs at the deadline is handed back uncounted', async () => {
  const receiver = await startReceiver();
  const data_dir = dataDir();
  const first = await start({ data_dir, env: { SLUICE_DRAIN_TIMEOUT: '1s' } });
  const path = '/overdue';
  receiver.at(path, { hold: true });
  const load = await createLoad(acmeOf(first), receiver, 4, 10, path);
  await receiver.heard(path, load.tasks);
  assert.equal(await first.stop(), 0);
  receiver.at(path, {});
  const second = await start({ data_dir });
  await allEnded(acmeOf(second), load, RECOVERED_MS_MAX);
  assert.equal((await audit(acmeOf(second), receiver, load)).repeated_calls, load.tasks);
  assert.ok(receiver.to(path).every(({ attempt }) => attempt === 1));
  const [batch = ''] = load.batches;
  assert.ok((await acmeOf(second).allTasks(batch)).every(({ attempts }) => attempts === 1));
});

test('a second signal ends the engine at once', async () => {
  const receiver = await startReceiver();
  const engine = await start({});
  const path = '/stubborn';
  receiver.at(path, { hold: true });
  await createLoad(acmeOf(engine), receiver, 1, 1, path);
  await receiver.heard(path, 1);
  engine.signal('SIGTERM');
  await until(() => engine.logs().some((line) => line.includes('"signal":"SIGTERM"')), 5_000, 'the first signal to be heard');
  const refused = (): Promise<boolean> =>
    fetch(`${engine.url}/v1/batches`).then(
      ({ status }) => status === 503,
      () => true,
    );
  await until(refused, 5_000, 'new requests to be refused');
  const began_ms = performance.now();
  engine.signal('SIGINT');
  assert.equal(await engine.ended, 1);
  assert.ok(performance.now() - began_ms < 2_000);
});

test('a callback thread that dies is replaced, and what it had in flight is done by the next', async () => {
  const receiver = await startReceiver();
  const data_dir = dataDir();
  const file = join(data_dir, 'mortal');
  const engine = await start({ data_dir, node_args: ['--import', './test/engine/mortal.js'], env: { MORTAL_FILE: file } });
  const client = acmeOf(engine);
  const deaths = ['exit', 'throw and stillborn'];
  for (const [n, death] of deaths.entries()) {
    const path = `/mortal-${n}`;
    receiver.at(path, { hold: true });
    const load = await createLoad(client, receiver, 5, 10, path);
    await receiver.heard(path, load.tasks);
    writeFileSync(file, death);
    await until(() => receiver.held(path).length === 0, RECOVERED_MS_MAX, `the thread to die by ${death}`);
    receiver.at(path, {});
    await allEnded(client, load, RECOVERED_MS_MAX);
    assert.equal((await audit(client, receiver, load)).repeated_calls, load.tasks, death);
    assert.equal((await client.ask('GET', '/readyz')).status, 200);
  }
  // The last one's heir died before it had a job; whether that counts as a life depends on the moment.
  assert.ok(engine.logs().some((line) => line.includes('stillborn')));
  const restarts = /^sluice_thread_restarts_total\{pool="callbacks"\} (\d+)$/m.exec((await client.ask('GET', '/metrics')).text)?.[1];
  assert.ok(Number(restarts) >= deaths.length, restarts);
});
