// Lists by cursor: every item that was there all the time comes once, in order, whatever comes and goes meanwhile.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createClient } from '../../src/client/index.ts';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { inSeconds, tasksFor } from './stage.ts';

const engine = await startEngine();
const client = api(engine, TOKENS.acme);
const LATER = { execute_after: inSeconds(3_600) };
const TASK = tasksFor('https://192.0.2.1/', 1, LATER);

interface Page {
  total: number;
  next_cursor?: string | null;
}

/** All items of a list, page by page; `between` runs after each page. */
async function walk<T>(path: string, key: string, limit: number, between: () => Promise<unknown> = async () => null): Promise<T[]> {
  const all: T[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const { status, json, text } = await client.ask('GET', `${path}${path.includes('?') ? '&' : '?'}limit=${limit}&cursor=${cursor}`);
    assert.equal(status, 200, text);
    const page = json as Page & Record<string, T[]>;
    const items = page[key] ?? [];
    assert.ok(items.length === limit || page.next_cursor === null, 'only the last page is short');
    all.push(...items);
    assert.notEqual(page.next_cursor, undefined);
    cursor = page.next_cursor ?? null;
    await between();
  }
  return all;
}

const idsOf = (items: readonly { id: string }[]): string[] => items.map(({ id }) => id);

/** The same by offset, in one page. */
async function idsByOffset(path: string, key: string): Promise<string[]> {
  const { json } = await client.ask('GET', path);
  const page = json as Page & Record<string, { id: string }[]>;
  assert.ok(!('next_cursor' in page), 'who gives no cursor gets none');
  return idsOf(page[key] ?? []);
}

test('batches, also those of a status or label, of one millisecond, and while others come and go', async () => {
  // Several at once, so that some share their time.
  for (let i = 0; i < 4; i++) {
    await Promise.all(Array.from({ length: 6 }, (_, k) => client.create({ tasks: TASK, labels: k % 2 ? { odd: 'yes' } : { odd: 'no' } })));
  }
  const before = await idsByOffset('/v1/batches?limit=1000', 'batches');
  assert.deepEqual(idsOf(await walk('/v1/batches', 'batches', 5)), before);
  assert.deepEqual(idsOf(await walk('/v1/batches', 'batches', 8)), before);
  assert.deepEqual(idsOf(await walk('/v1/batches', 'batches', 1)), before);
  assert.deepEqual(idsOf(await walk('/v1/batches', 'batches', 24)), before);
  const odd = await idsByOffset('/v1/batches?limit=1000&label.odd=yes&status=pending', 'batches');
  assert.deepEqual([odd.length, idsOf(await walk('/v1/batches?label.odd=yes&status=pending', 'batches', 5))], [12, odd]);

  const removed = new Set<string>();
  const seen = await walk<{ id: string }>('/v1/batches', 'batches', 3, async () => {
    await client.create({ tasks: TASK });
    const gone = before[removed.size * 2];
    if (gone === undefined) return;
    removed.add(gone);
    await client.cancel(gone);
    assert.equal((await client.ask('DELETE', `/v1/batches/${gone}`)).status, 200);
  });
  const stayed = before.filter((id) => !removed.has(id));
  assert.deepEqual(
    idsOf(seen).filter((id) => stayed.includes(id)),
    stayed,
  );
  assert.equal(new Set(idsOf(seen)).size, seen.length);
});

test('tasks of a batch, all or of a status, while it grows', async () => {
  const { id } = await client.create({ tasks: tasksFor('https://192.0.2.1/', 23, LATER) });
  const path = `/v1/batches/${id}/tasks`;
  const ids = Array.from({ length: 23 }, (_, n) => `task_${id.slice('batch_'.length)}_${n}`);
  for (const n of [0, 4, 5, 22]) assert.equal((await client.ask('POST', `/v1/tasks/${ids[n]}/cancel`)).status, 200);
  assert.deepEqual(idsOf(await walk(path, 'tasks', 5)), ids);
  assert.deepEqual(idsOf(await walk(path, 'tasks', 23)), ids);
  const queued = ids.filter((_, n) => ![0, 4, 5, 22].includes(n));
  let added = 0;
  const grown = await walk<{ id: string }>(`${path}?status=queued`, 'tasks', 4, async () => {
    if (added++ < 2) await client.add(id, { tasks: TASK });
  });
  assert.deepEqual(idsOf(grown).slice(0, 19), queued);
  assert.equal(grown.length, 21);
});

test('limiters and schedules', async () => {
  const limiter = (n: number) =>
    client.ask('POST', '/v1/rate-limiters', { body: { name: `l${n}`, type: 'concurrent', config: { limit: 1 } } });
  await Promise.all(Array.from({ length: 13 }, (_, n) => limiter(n)));
  const limiters = await idsByOffset('/v1/rate-limiters', 'rate_limiters');
  assert.equal(limiters.length, 13);
  for (const limit of [1, 4, 13]) assert.deepEqual(idsOf(await walk('/v1/rate-limiters', 'rate_limiters', limit)), limiters);
  let deleted = 0;
  const seen = await walk<{ id: string }>('/v1/rate-limiters', 'rate_limiters', 3, async () => {
    const last = limiters[2 + 3 * deleted++];
    if (last !== undefined) assert.equal((await client.ask('DELETE', `/v1/rate-limiters/${last}`)).status, 200);
  });
  assert.deepEqual(idsOf(seen), limiters, 'that the last of a page is deleted leaves nothing out');

  const body = { cron: '0 0 1 1 *', timezone: 'UTC', task_template: { target: 'https://192.0.2.1/' } };
  const made = await Promise.all(Array.from({ length: 7 }, () => client.ask('POST', '/v1/schedules', { body })));
  for (const { status, text } of made) assert.equal(status, 201, text);
  const schedules = await idsByOffset('/v1/schedules', 'schedules');
  assert.equal(schedules.length, 7);
  for (const limit of [2, 7]) assert.deepEqual(idsOf(await walk('/v1/schedules?enabled=true', 'schedules', limit)), schedules);
});

test('what is no cursor of a list is refused, and so are cursor and offset together', async () => {
  const [one, other] = [await client.create({ tasks: TASK }), await client.create({ tasks: [...TASK, ...TASK] })];
  const cursorOf = async (path: string): Promise<string> => {
    const { json } = await client.ask('GET', `${path}?limit=1&cursor=`);
    return (json as Page).next_cursor ?? '';
  };
  const [batches, tasks] = [await cursorOf('/v1/batches'), await cursorOf(`/v1/batches/${other.id}/tasks`)];
  assert.ok(batches !== '' && tasks !== '');
  const wrong: [string, string][] = [
    ['/v1/batches', 'x'],
    ['/v1/batches', '%20'],
    ['/v1/batches', tasks],
    ['/v1/batches', `${batches}A`],
    [`/v1/batches/${one.id}/tasks`, tasks],
    [`/v1/batches/${one.id}/tasks`, batches],
    ['/v1/rate-limiters', batches],
    ['/v1/schedules', batches],
  ];
  for (const [path, cursor] of wrong) {
    const { details } = await client.refused(400, 'validation_error', 'GET', `${path}?cursor=${cursor}`);
    assert.deepEqual(
      (details['errors'] as { path: string }[]).map((fault) => fault.path),
      ['cursor'],
    );
  }
  for (const path of ['/v1/batches', `/v1/batches/${one.id}/tasks`, '/v1/rate-limiters', '/v1/schedules']) {
    await client.refused(400, 'validation_error', 'GET', `${path}?cursor=&offset=0`);
  }
  await api(engine, TOKENS.rival).refused(404, 'batch_not_found', 'GET', `/v1/batches/${other.id}/tasks?cursor=${tasks}`);
});

test('the iterators of the client go to the end of any list, beyond where offsets end', async () => {
  const sluice = createClient({ base_url: engine.url, token: TOKENS.acme });
  const tasks = Array.from({ length: 101_000 }, () => ({ target: 'https://192.0.2.1/', ...LATER }));
  // Under a key and again, as the client does: a busy machine may keep Redis from answering for two seconds.
  const { id } = await sluice.createBatch({ tasks });
  let index = 0;
  for await (const task of sluice.allBatchTasks(id)) {
    if (task.id !== `task_${id.slice('batch_'.length)}_${index}`) assert.fail(`${task.id} instead of number ${index}`);
    index += 1;
  }
  assert.equal(index, tasks.length);
  const found: string[] = [];
  for await (const batch of sluice.allBatches({ status: 'pending', 'label.odd': 'no' })) found.push(batch.id);
  assert.deepEqual(found, await idsByOffset('/v1/batches?limit=1000&label.odd=no&status=pending', 'batches'));
});
