// Adding tasks one a line: bodies of any length in constant memory, refused lines, cut connections and repeats.
import assert from 'node:assert/strict';
import http from 'node:http';
import { test } from 'node:test';
import { api, type ErrorBody } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { keptMb, TELLS_WHAT_IT_KEEPS } from '../helpers/memory.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis, until } from '../helpers/redis.ts';
import { freshPath, inSeconds, tasksFor } from './stage.ts';

const engine = await startEngine({ node_args: TELLS_WHAT_IT_KEEPS });
const client = api(engine, TOKENS.acme);
const receiver = await startReceiver();
const LATER = inSeconds(3_600);
const LINES = { 'content-type': 'application/x-ndjson' };

const line = (n: number, more: object = {}): string =>
  JSON.stringify({ target: 'https://192.0.2.1/', payload: { n }, execute_after: LATER, ...more });
const upTo = (count: number, from = 0): string[] => Array.from({ length: count }, (_, i) => line(from + i));
const bodyOf = (lines: readonly string[]): string => lines.map((one) => `${one}\n`).join('');

/** A batch with one task, held. */
async function heldBatch(): Promise<string> {
  const { id } = await client.create({ tasks: tasksFor('https://192.0.2.1/', 1, { execute_after: LATER }), options: { hold: true } });
  return id;
}

async function numbersOf(id: string): Promise<number[]> {
  return (await client.allTasks(id)).map(({ payload }) => (payload as { n: number }).n).slice(1);
}

const numbers = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

async function send(id: string, raw: string | Buffer, key?: string) {
  const headers = { ...LINES, ...(key === undefined ? {} : { 'idempotency-key': key }) };
  return client.ask('POST', `/v1/batches/${id}/tasks`, { raw, headers });
}

async function refusedWith(status: number, code: string, id: string, raw: string | Buffer, key?: string): Promise<ErrorBody['details']> {
  const reply = await send(id, raw, key);
  const { error } = reply.json as { error: ErrorBody };
  assert.deepEqual([reply.status, error.code], [status, code], reply.text.slice(0, 500));
  return error.details;
}

/** An open request, to be written to and ended. */
function open(
  id: string,
  key: string,
  url = engine.url,
): { request: http.ClientRequest; answered: Promise<{ status: number; text: string }> } {
  const headers = { ...LINES, authorization: `Bearer ${TOKENS.acme}`, 'idempotency-key': key };
  const request = http.request(`${url}/v1/batches/${id}/tasks`, { method: 'POST', headers });
  const answered = new Promise<{ status: number; text: string }>((resolve, reject) => {
    request.once('error', reject);
    request.once('response', (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part: string) => {
        text += part;
      });
      response.once('end', () => resolve({ status: response.statusCode ?? 0, text }));
    });
  });
  answered.catch(() => {});
  return { request, answered };
}

test('lines become tasks in their order, are called, and answered as a JSON body is', async () => {
  const path = freshPath();
  const target = receiver.at(path, {});
  const { id } = await client.create({ tasks: tasksFor(target, 1), options: { hold: true } });
  const raw = `\n${bodyOf(Array.from({ length: 5 }, (_, n) => JSON.stringify({ target, payload: { n } })))}\r\n{"target":"${target}"}`;
  const { status, json } = await send(id, raw);
  const { stats } = json as { stats: { total: number } };
  assert.deepEqual([status, stats.total], [200, 7]);
  await client.release(id);
  await client.ended(id, 'completed');
  assert.equal(receiver.to(path).length, 7);
});

/** So many lines of about 900 bytes, as fast as they are taken; how many MB that were, and what the server kept while the last quarter came. */
async function sendMany(id: string, count: number, key: string): Promise<{ sent_mb: number; kept_mb: number[] }> {
  const { request, answered } = open(id, key);
  const pad = 'x'.repeat(800);
  let bytes = 0;
  const told = keptMb(engine).length;
  for (let n = 0; n < count; n += 500) {
    const part = bodyOf(Array.from({ length: 500 }, (_, i) => line(n + i, { payload: { n: n + i, pad } })));
    bytes += part.length;
    if (n >= count * 0.75 && n % 5_000 === 0) engine.signal('SIGUSR2');
    if (!request.write(part)) await new Promise((resolve) => request.once('drain', resolve));
  }
  request.end();
  const { status, text } = await answered;
  assert.equal(status, 200, text);
  assert.equal((JSON.parse(text) as { stats: { total: number } }).stats.total, count + 1);
  return { sent_mb: bytes / 1e6, kept_mb: keptMb(engine).slice(told) };
}

test('400,000 lines and 360 MB go in whole and in order, and are not kept on the way', async () => {
  // The threads tell one by one, so what was told first is not of all of them.
  const { kept_mb: before_mb } = await sendMany(await heldBatch(), 100_000, 'some');
  const id = await heldBatch();
  const { sent_mb, kept_mb } = await sendMany(id, 400_000, 'many');
  const more_mb = Math.min(...kept_mb) - Math.max(...before_mb);
  assert.ok(sent_mb > 350 && kept_mb.length > 20 && more_mb < 60, `keeps ${more_mb} MB of ${sent_mb} MB`);
  for (const offset of [1, 999, 1_001, 54_321]) {
    const { tasks } = await client.tasks(id, `?limit=3&offset=${offset}`);
    assert.deepEqual(
      tasks.map(({ payload }) => (payload as { n: number }).n),
      [offset - 1, offset, offset + 1],
    );
  }
});

test('a line that is refused is named, what is before it is there, and a repeat with it mended adds the rest', async () => {
  const id = await heldBatch();
  const good = upTo(3_000);
  const bad = good.with(2_500, line(2_500, { target: 'ftp://192.0.2.1/' })).with(2_700, '{"payload":1}');
  const details = await refusedWith(400, 'validation_error', id, bodyOf(bad), 'mended');
  const errors = details['errors'] as { path: string }[];
  assert.deepEqual([errors.map(({ path }) => path), details['added']], [['/2500/target', '/2700/target'], 2_500]);
  assert.deepEqual(await numbersOf(id), numbers(2_500));
  assert.equal((await refusedWith(400, 'validation_error', id, bodyOf(bad), 'mended'))['added'], 2_500);
  const { status, headers } = await send(id, bodyOf(good), 'mended');
  assert.deepEqual([status, headers['idempotent-replayed']], [200, undefined]);
  assert.deepEqual(await numbersOf(id), numbers(3_000));
});

test('what is wrong with a line is told as with a body, whatever it is', async () => {
  const id = await heldBatch();
  const all: [string | Buffer, number, string, object][] = [
    [`${line(0)}\n${line(1)},${line(2)}\n`, 400, 'invalid_json', { path: '/1', added: 1 }],
    [`${line(0)}\n[]\n`, 400, 'validation_error', { errors: [{ path: '/1', message: 'must be an object' }], added: 1 }],
    [`\n\n${line(0, { rate_limiter: 'nobody' })}`, 400, 'rate_limiter_not_found', { added: 0 }],
    [Buffer.concat([Buffer.from(`${line(0)}\n"`), Buffer.from([0xff])]), 400, 'invalid_json', { path: '/1', added: 1 }],
    ['\n \r\n', 400, 'validation_error', { errors: [{ path: '', message: 'must have at least one task' }], added: 0 }],
    ['', 400, 'validation_error', { errors: [{ path: '', message: 'must have at least one task' }], added: 0 }],
    [`${line(0)}\n"${'x'.repeat(1_048_576)}"\n`, 413, 'payload_too_large', { path: '/1', max_line_bytes: 1_048_576, added: 1 }],
  ];
  let total = 1;
  for (const [raw, status, code, expected] of all) {
    const details = await refusedWith(status, code, id, raw);
    const shown = Object.fromEntries(Object.keys(expected).map((name) => [name, details[name]]));
    assert.deepEqual(shown, expected, String(raw).slice(0, 200));
    total += details['added'] as number;
  }
  assert.equal((await client.batch(id)).stats.total, total);
  const path = `/v1/batches/${id}/tasks`;
  await client.refused(415, 'unsupported_media_type', 'POST', path, { raw: line(0), headers: { 'content-type': 'application/ndjson' } });
  const rival = api(engine, TOKENS.rival);
  await rival.refused(404, 'batch_not_found', 'POST', path, { raw: line(0), headers: LINES });
});

test('a connection that is cut leaves whole pieces, and the repeat adds what is missing, once', async () => {
  const id = await heldBatch();
  const lines = upTo(4_500);
  const { request, answered } = open(id, 'cut');
  request.write(bodyOf(lines.slice(0, 2_300)));
  await client.batchWhen(id, ({ stats }) => stats.total === 2_001);
  request.destroy();
  await assert.rejects(answered);
  const first = await send(id, bodyOf(lines), 'cut');
  assert.equal(first.status, 200, first.text);
  assert.deepEqual(await numbersOf(id), numbers(4_500));
  const again = await send(id, bodyOf(lines), 'cut');
  assert.deepEqual([again.status, again.headers['idempotent-replayed'], again.json], [200, 'true', first.json]);
  assert.equal((await client.batch(id)).stats.total, 4_501);
});

test('two that send the same at once add it once', async () => {
  const id = await heldBatch();
  const raw = bodyOf(upTo(5_000));
  const replies = await Promise.all([send(id, raw, 'twins'), send(id, raw, 'twins'), send(id, raw, 'twins')]);
  assert.deepEqual(
    replies.map(({ status }) => status),
    [200, 200, 200],
  );
  assert.deepEqual(await numbersOf(id), numbers(5_000));
});

test('a key belongs to its lines: others, more, fewer, or a JSON body under it are refused', async () => {
  const id = await heldBatch();
  const lines = upTo(2_000);
  assert.equal((await send(id, bodyOf(lines), 'taken')).status, 200);
  const other = [lines.with(3, line(7)), lines.with(1_999, line(7)), [...lines, line(2_000)], lines.slice(0, 1_000), lines.slice(0, 1_500)];
  for (const one of other) await refusedWith(422, 'idempotency_key_reused', id, bodyOf(one), 'taken');
  const body = { tasks: lines.slice(0, 1).map((one) => JSON.parse(one) as object) };
  const headers = { 'idempotency-key': 'taken' };
  await client.refused(422, 'idempotency_key_reused', 'POST', `/v1/batches/${id}/tasks`, { body, headers });
  await refusedWith(422, 'idempotency_key_reused', await heldBatch(), bodyOf(lines), 'taken');
  assert.equal((await client.batch(id)).stats.total, 2_001);
});

test('tasks with keys of their own are skipped where the batch has them', async () => {
  const id = await heldBatch();
  const lines = Array.from({ length: 1_500 }, (_, n) => line(n, { idempotency_key: `k${n % 1_200}` }));
  const { status, json } = await send(id, bodyOf(lines));
  assert.deepEqual([status, (json as { duplicates: number }).duplicates], [200, 300]);
  assert.deepEqual(await numbersOf(id), numbers(1_200));
});

test('a batch that is cancelled meanwhile takes no more, and the refusal says what it has', async () => {
  const id = await heldBatch();
  const { request, answered } = open(id, 'cancelled');
  request.write(bodyOf(upTo(1_000)));
  await client.batchWhen(id, ({ stats }) => stats.total === 1_001);
  await client.cancel(id);
  request.end(bodyOf(upTo(1_000, 1_000)));
  const { status, text } = await answered;
  const { error } = JSON.parse(text) as { error: ErrorBody };
  assert.deepEqual([status, error.code, error.details['added']], [422, 'batch_state_invalid', 1_000]);
});

test('who sends faster than is added waits: what has come and is not added yet is bounded', async () => {
  const id = await heldBatch();
  const { request, answered } = open(id, 'fast');
  let written = 0;
  const part = bodyOf(Array.from({ length: 1_000 }, (_, n) => line(n, { payload: { n, pad: 'x'.repeat(2_000) } })));
  for (let i = 0; i < 20; i++) {
    written += part.length;
    request.write(part);
  }
  await until(async () => (await client.batch(id)).stats.total > 1, 20_000, 'the first piece');
  request.end();
  assert.equal((await answered).status, 200);
  assert.ok(written > 40e6);
  assert.equal((await client.batch(id)).stats.total, 20_001);
});

test('a server that stops says what it has, and the next one goes on from there', async () => {
  const { path } = await startRedis();
  const old = await startEngine({ redis_url: `unix://${path}` });
  const { id } = await api(old, TOKENS.acme).create({
    tasks: tasksFor('https://192.0.2.1/', 1, { execute_after: LATER }),
    options: { hold: true },
  });
  const { request, answered } = open(id, 'moved', old.url);
  request.write(bodyOf(upTo(1_000)));
  await api(old, TOKENS.acme).batchWhen(id, ({ stats }) => stats.total === 1_001);
  const stopped = old.stop();
  await until(() => old.logs().some((one) => one.includes('stopping')), 10_000, 'the stop to begin');
  request.write(bodyOf(upTo(1_000, 1_000)));
  const { status, text } = await answered;
  const { error } = JSON.parse(text) as { error: ErrorBody };
  assert.deepEqual([status, error.code, error.details['added']], [503, 'unavailable', 1_000]);
  request.destroy();
  assert.equal(await stopped, 0);
  const next = await startEngine({ redis_url: `unix://${path}` });
  const headers = { ...LINES, 'idempotency-key': 'moved' };
  const reply = await api(next, TOKENS.acme).ask('POST', `/v1/batches/${id}/tasks`, { raw: bodyOf(upTo(2_500)), headers });
  assert.equal((reply.json as { stats: { total: number } }).stats.total, 2_501, reply.text);
});

const GOOD_ONES = '?atomic=false';

async function sendGood(id: string, lines: readonly string[], key?: string) {
  const headers = { ...LINES, ...(key === undefined ? {} : { 'idempotency-key': key }) };
  return client.ask('POST', `/v1/batches/${id}/tasks${GOOD_ONES}`, { raw: bodyOf(lines), headers });
}

interface Left {
  errors: { index: number; message: string; path: string }[];
  errors_omitted?: number;
  duplicates?: number;
  stats: { total: number };
}

test('with atomic=false bad lines of any kind are left out and told, and all others are there', async () => {
  const id = await heldBatch();
  const bad: [number, string, string][] = [
    [3, '{"target"', '/3'],
    [4, '[]', '/4'],
    [1_200, line(0, { target: 'ftp://192.0.2.1/' }), '/1200/target'],
    [1_700, line(0, { rate_limiter: 'nobody' }), '/1700/rate_limiter'],
    [2_999, '"', '/2999'],
  ];
  const lines: string[] = ['', ...upTo(2_999, 1)];
  for (const [n, text] of bad) lines[n] = text;
  const { status, json, text } = await sendGood(id, lines);
  assert.equal(status, 200, text.slice(0, 500));
  const { errors, errors_omitted, stats } = json as Left;
  assert.deepEqual(
    errors.map(({ index, path }) => [index, path]),
    bad.map(([n, , path]) => [n, path]),
  );
  assert.deepEqual([errors_omitted, stats.total], [undefined, 2_999 - bad.length + 1]);
  const left = new Set(bad.map(([n]) => n));
  assert.deepEqual(
    await numbersOf(id),
    numbers(3_000).filter((n) => n > 0 && !left.has(n)),
  );
});

test('of many bad lines the first thousand faults are told, and how many more there are', async () => {
  const id = await heldBatch();
  const lines = Array.from({ length: 5_000 }, (_, n) => (n % 2 ? line(n) : '{}'));
  const { errors, errors_omitted, stats } = (await sendGood(id, lines)).json as Left;
  assert.deepEqual([errors.length, errors.at(-1)?.index, errors_omitted, stats.total], [1_000, 1_998, 1_500, 2_501]);
});

test('a repeat is told of the same lines, and one with other lines is refused, also where a piece had no good one', async () => {
  const id = await heldBatch();
  const lines = [...Array.from({ length: 1_000 }, () => 'x'), ...upTo(2), 'y'];
  const first = await sendGood(id, lines, 'good-ones');
  assert.equal(first.status, 200, first.text.slice(0, 500));
  assert.deepEqual([(first.json as Left).errors.length, (first.json as Left).errors_omitted], [1_000, 1]);
  const again = await sendGood(id, lines, 'good-ones');
  assert.deepEqual([again.status, again.text, again.headers['idempotent-replayed']], [200, first.text, 'true']);
  for (const other of [lines.with(7, line(7)), lines.with(1_001, line(7)), lines.slice(0, -1)]) {
    assert.equal((await sendGood(id, other, 'good-ones')).status, 422);
  }
  assert.equal((await send(id, bodyOf(lines), 'good-ones')).status, 422, 'the same lines, all or none');
  assert.deepEqual(await numbersOf(id), numbers(2));
});

test('where no line is good the request is refused, and its key is free for a mended one', async () => {
  const id = await heldBatch();
  const bad = Array.from({ length: 1_500 }, () => line(0, { target: 'http://' }));
  const { status, json } = await sendGood(id, bad, 'none-good');
  const { error } = json as { error: ErrorBody };
  assert.deepEqual([status, error.code, error.details['added']], [400, 'validation_error', 0]);
  assert.equal((error.details['errors'] as unknown[]).length, 100);
  const mended = await sendGood(id, bad.with(700, line(0)), 'none-good');
  assert.deepEqual([mended.status, (mended.json as Left).stats.total], [200, 2]);
});

test('whether lines are all or none is said by the query, of a JSON body by itself', async () => {
  const id = await heldBatch();
  const path = `/v1/batches/${id}/tasks`;
  const body = { tasks: tasksFor('https://192.0.2.1/', 1, { execute_after: LATER }) };
  const { details } = await client.refused(400, 'validation_error', 'POST', `${path}${GOOD_ONES}`, { body });
  assert.deepEqual(details['errors'], [{ path: 'atomic', message: 'is for a body of lines; this one says it itself' }]);
  await client.refused(400, 'validation_error', 'POST', `${path}?atomic=maybe`, { raw: `${line(0)}\n`, headers: LINES });
  assert.equal((await client.ask('POST', `${path}?atomic=true`, { raw: `${line(0)}\n`, headers: LINES })).status, 200);
});
