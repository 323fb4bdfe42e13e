// Section 9 of the contract: the limits of the API, on an engine that has small ones.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { api, type Reply } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { inSeconds, tasksFor } from './stage.ts';

const LIMIT = 5;
const limit = String(LIMIT);
const engine = await startEngine({
  env: { SLUICE_LIMIT_BATCH_CREATE: limit, SLUICE_LIMIT_BATCH_ADD: limit, SLUICE_LIMIT_BATCH_STATUS: limit },
});
const acme = api(engine, TOKENS.acme);
const rival = api(engine, TOKENS.rival);
const body = { tasks: tasksFor('http://127.0.0.1:1/', 1, { execute_after: inSeconds(3_600) }) };

/** Every request that counts says what is left, whatever becomes of it. */
function told({ status, headers }: Reply, policy: string, left: number, as: number): void {
  assert.equal(status, as);
  assert.equal(headers['ratelimit-policy'], `"${policy}";q=${LIMIT};w=60`);
  assert.match(String(headers['ratelimit']), new RegExp(`^"${policy}";r=${left};t=([1-9]|[1-5]\\d|60)$`));
}

function refused(reply: Reply, policy: string): void {
  told(reply, policy, 0, 429);
  const { error } = reply.json as { error: { code: string; details: unknown } };
  assert.deepEqual([error.code, error.details], ['rate_limited', { policy, limit: LIMIT, window_seconds: 60 }]);
  assert.match(String(reply.headers['retry-after']), /^([1-9]|[1-5]\d|60)$/);
}

test('reads, adds and creates are counted apart, refused ones of the caller too, and another account’s not at all', async () => {
  const { id } = await acme.create(body);
  const path = `/v1/batches/${id}`;

  told(await acme.ask('GET', path), 'batch-status', 4, 200);
  told(await acme.ask('HEAD', path), 'batch-status', 3, 200);
  told(await acme.ask('GET', `${path}/tasks`), 'batch-status', 2, 200);
  told(await acme.ask('GET', `${path}/tasks?limit=0`), 'batch-status', 1, 400);
  assert.equal((await rival.ask('GET', path)).status, 404);
  told(await acme.ask('GET', `${path}?x=1`), 'batch-status', 0, 400);
  refused(await acme.ask('GET', path), 'batch-status');
  refused(await acme.ask('GET', `${path}/tasks?limit=0`), 'batch-status');

  told(await acme.ask('POST', `${path}/tasks`, { body }), 'batch-add', 4, 200);
  told(await acme.ask('POST', `${path}/tasks`, { body: { tasks: [] } }), 'batch-add', 3, 400);
  told(await acme.ask('POST', `${path}/tasks`, { raw: 'x', headers: { 'content-type': 'text/plain' } }), 'batch-add', 2, 415);
  assert.equal((await rival.ask('POST', `${path}/tasks`, { body })).status, 404);
  for (const left of [1, 0]) told(await acme.ask('POST', `${path}/tasks`, { body }), 'batch-add', left, 200);
  refused(await acme.ask('POST', `${path}/tasks`, { raw: 'x' }), 'batch-add');

  told(await acme.ask('POST', '/v1/batches', { raw: 'x' }), 'batch-create', 3, 400);
  for (const left of [2, 1, 0]) told(await acme.ask('POST', '/v1/batches', { body }), 'batch-create', left, 201);
  refused(await acme.ask('POST', '/v1/batches', { body }), 'batch-create');
  told(await rival.ask('POST', '/v1/batches', { body }), 'batch-create', 4, 201);

  for (const free of ['/v1/batches', `${path}/notifications`]) {
    const { status, headers } = await acme.ask('GET', free);
    assert.deepEqual([status, headers['ratelimit']], [200, undefined]);
  }
});
