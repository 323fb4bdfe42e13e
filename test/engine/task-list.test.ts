// A list of tasks that are large: piece by piece, as it is read.
import assert from 'node:assert/strict';
import http from 'node:http';
import { test } from 'node:test';
import type { TaskList } from '../../src/schema/types.gen.ts';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { inSeconds, ONCE } from './stage.ts';

const engine = await startEngine();
const client = api(engine, TOKENS.acme);

const BODY_TASKS = 60;

/** A batch of tasks of 250 KB that wait; 16 of them are a segment, of which two are read at a time. */
async function large(count: number): Promise<{ id: string; path: string; payloads: string[] }> {
  const payloads = Array.from({ length: count }, (_, n) => `${n}${'x'.repeat(250_000)}`);
  const tasks = payloads.map((payload) => ({ target: 'https://192.0.2.1/', payload, ...ONCE, execute_after: inSeconds(600) }));
  const { id } = await client.create({ tasks: tasks.slice(0, BODY_TASKS) });
  if (count > BODY_TASKS) await client.add(id, { tasks: tasks.slice(BODY_TASKS) });
  return { id, path: `/v1/batches/${id}/tasks`, payloads };
}

/** Resolves with the head of the answer; nothing of its body is taken yet. */
function begun(path: string): Promise<http.IncomingMessage> {
  const headers = { authorization: `Bearer ${TOKENS.acme}` };
  const request = http.get(`${engine.url}${path}`, { headers, agent: false });
  return new Promise((resolve, reject) => request.once('response', resolve).once('error', reject));
}

async function bodyOf(answer: http.IncomingMessage): Promise<string> {
  let text = '';
  answer.setEncoding('utf8');
  for await (const part of answer) text += part as string;
  return text;
}

test('a list of large tasks comes in pieces, and is what it would be in one', async () => {
  const { path, payloads } = await large(40);
  const { headers, json } = await client.ask('GET', `${path}?limit=1000`);
  assert.deepEqual([headers['transfer-encoding'], headers['content-type']], ['chunked', 'application/json']);
  const { total, tasks } = json as TaskList;
  assert.equal(total, 40);
  assert.deepEqual(
    tasks.map((task) => task.payload),
    payloads,
  );
  const first = await client.ask('GET', `${path}?limit=39&cursor=`);
  assert.equal(first.headers['transfer-encoding'], 'chunked');
  const { next_cursor } = first.json as { next_cursor: string };
  const last = await client.ask('GET', `${path}?limit=39&cursor=${next_cursor}`);
  assert.equal(Number(last.headers['content-length']), Buffer.byteLength(last.text));
  const rest = last.json as TaskList & { next_cursor: unknown };
  assert.deepEqual([rest.tasks.map((task) => task.payload), rest.next_cursor], [payloads.slice(39), null]);
  const head = await client.ask('HEAD', `${path}?limit=1000`);
  assert.deepEqual([head.status, head.headers['content-type'], head.headers['content-length']], [200, 'application/json', undefined]);
  const short = await client.ask('GET', `${path}?limit=2`);
  const short_head = await client.ask('HEAD', `${path}?limit=2`);
  assert.equal(short_head.headers['content-length'], short.headers['content-length']);
  assert.equal(Number(short.headers['content-length']), Buffer.byteLength(short.text));
});

test('what is read later is as it is then: of a batch that is cancelled meanwhile, and one that is deleted', async () => {
  const { id, path } = await large(2 * BODY_TASKS);
  const [all, queued, cut] = await Promise.all(
    ['?limit=1000', '?limit=1000&status=queued', '?limit=1000'].map((query) => begun(path + query)),
  );
  assert.ok(all && queued && cut);
  await client.cancel(id);
  const { total, tasks } = JSON.parse(await bodyOf(all)) as TaskList;
  const statuses = tasks.map(({ status }) => status as string);
  assert.deepEqual([total, statuses.length, statuses.at(0), statuses.at(-1)], [120, 120, 'queued', 'cancelled']);
  const left = (JSON.parse(await bodyOf(queued)) as TaskList).tasks;
  assert.ok(left.length > 0 && left.length < 120 && left.every(({ status }) => status === 'queued'));
  await client.ask('DELETE', `/v1/batches/${id}`);
  await assert.rejects(bodyOf(cut), { code: 'ECONNRESET' });
  await client.refused(404, 'batch_not_found', 'GET', path);
});
