// Downloading the outcomes of a batch: all of them, in order, while it runs too, at the pace of who reads.
import assert from 'node:assert/strict';
import http from 'node:http';
import { test } from 'node:test';
import type { TaskOutcome } from '../../src/schema/types.gen.ts';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { collected, rssMb, TELLS_WHAT_IT_KEEPS } from '../helpers/memory.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { freshPath, inSeconds, ONCE, tasksFor } from './stage.ts';

const engine = await startEngine({ node_args: TELLS_WHAT_IT_KEEPS });
const client = api(engine, TOKENS.acme);
const receiver = await startReceiver();

const pathOf = (id: string, query = ''): string => `/v1/batches/${id}/results${query}`;

async function outcomesOf(id: string, query = '?format=ndjson'): Promise<TaskOutcome[]> {
  const { status, headers, text } = await client.ask('GET', pathOf(id, query));
  assert.deepEqual([status, headers['content-type']], [200, 'application/x-ndjson'], text.slice(0, 500));
  assert.ok(text === '' || text.endsWith('\n'));
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as TaskOutcome);
}

test('20,000 tasks: a line for each in their order, with what GET of the task says', async () => {
  const good = receiver.at(freshPath(), { body: 'fine' });
  const bad = receiver.at(freshPath(), { status: 500, body: 'no "good"\n' });
  const tasks = Array.from({ length: 20_000 }, (_, n) => ({ target: n % 10 === 3 ? bad : good, payload: { n }, ...ONCE }));
  const { id } = await client.create({ tasks });
  await client.ended(id, 'failed', 60_000);
  const outcomes = await outcomesOf(id, '');
  assert.equal(outcomes.length, 20_000);
  assert.ok(outcomes.every(({ index, status }, n) => index === n && status === (n % 10 === 3 ? 'failed' : 'completed')));
  for (const n of [0, 3, 499, 500, 16_383, 16_384, 19_999]) {
    const outcome = outcomes[n];
    assert.ok(outcome);
    const task = await client.task(outcome.id);
    assert.equal(outcome.id, `task_${id.slice('batch_'.length)}_${n}`);
    assert.deepEqual(
      [outcome.attempts, outcome.created_at, outcome.result, outcome.status === 'completed' ? outcome.completed_at : undefined],
      [task.attempts, task.created_at, task.result, task.completed_at],
    );
    assert.match(outcome.completed_at ?? '', /^2\d{3}-/);
  }
  assert.deepEqual(await outcomesOf(id, '?start_index=19990'), outcomes.slice(19_990));
  assert.deepEqual(await outcomesOf(id, '?start_index=20000'), []);
});

test('while a batch runs it has what has ended so far, of a cancelled one also what never ran', async () => {
  const path = freshPath();
  const url = receiver.at(path, { hold: true });
  const tasks = [...tasksFor(receiver.at(freshPath(), {}), 3), ...tasksFor(url, 1), ...tasksFor(url, 2, { execute_after: inSeconds(600) })];
  const { id } = await client.create({ tasks });
  await client.batchWhen(id, ({ stats }) => stats.completed === 3);
  await receiver.heard(path, 1);
  const indexes = async (): Promise<[number, string][]> => (await outcomesOf(id)).map(({ index, status }) => [index, status]);
  const done: [number, string][] = [
    [0, 'completed'],
    [1, 'completed'],
    [2, 'completed'],
  ];
  assert.deepEqual(await indexes(), done);
  await client.cancel(id);
  assert.deepEqual(await indexes(), [...done, [4, 'cancelled'], [5, 'cancelled']]);
  const [never] = (await outcomesOf(id)).slice(-1);
  assert.deepEqual([never?.attempts, never?.completed_at, never?.result], [0, undefined, undefined]);
  receiver.release(path);
  await client.batchWhen(id, ({ stats }) => stats.completed === 4);
  assert.deepEqual(await indexes(), [...done, [3, 'completed'], [4, 'cancelled'], [5, 'cancelled']]);
});

test('who may not see the batch, or asks for something else, is refused before the first line', async () => {
  const { id } = await client.create({ tasks: tasksFor('https://192.0.2.1/', 1, { execute_after: inSeconds(600) }) });
  await api(engine, TOKENS.rival).refused(404, 'batch_not_found', 'GET', pathOf(id));
  await api(engine, null).refused(401, 'unauthorized', 'GET', pathOf(id));
  for (const query of ['?format=csv', '?start_index=-1', '?start_index=x', '?limit=3', '?format=ndjson&format=ndjson']) {
    await client.refused(400, 'validation_error', 'GET', pathOf(id, query));
  }
  assert.deepEqual(await outcomesOf(id), []);
  const { status, headers, text } = await client.ask('HEAD', pathOf(id));
  assert.deepEqual([status, headers['content-type'], headers['content-length'], text], [200, 'application/x-ndjson', undefined, '']);
});

test('a reader who is slow holds up nobody, costs next to nothing and gets all; one who goes away is forgotten', async () => {
  const url = receiver.at(freshPath(), { body: 'x'.repeat(1_024) });
  const { id } = await client.create({ tasks: tasksFor(url, 20_000) });
  await client.ended(id, 'completed', 60_000);
  await outcomesOf(id);
  await collected(engine);
  const before_mb = rssMb(engine.pid);
  const readers = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const headers = { authorization: `Bearer ${TOKENS.acme}` };
      const request = http.get(`${engine.url}${pathOf(id)}`, { headers, agent: false });
      return new Promise<http.IncomingMessage>((resolve, reject) => request.once('response', resolve).once('error', reject));
    }),
  );
  // Each has 25 MB to come, and takes none of it yet.
  assert.equal((await client.batch(id)).stats.completed, 20_000);
  assert.equal((await outcomesOf(id)).length, 20_000);
  // What is kept beyond V8's heap, such as what is written and not yet sent, only the system counts; garbage, it counts too.
  await collected(engine);
  const grown_mb = rssMb(engine.pid) - before_mb;
  assert.ok(grown_mb < 250, `20 readers of 25 MB each cost ${grown_mb} MB`);
  const [one, ...others] = readers;
  assert.ok(one);
  for (const other of others) other.destroy();
  let text = '';
  one.setEncoding('utf8');
  for await (const part of one) text += part as string;
  assert.equal(text.split('\n').length, 20_001);
  assert.ok(text.length > 20e6);
});

test('nothing of all that was worth a warning', async () => {
  assert.equal(await engine.stop(), 0);
  assert.deepEqual(
    engine.logs().filter((line) => line.includes('uWS')),
    [],
  );
});
