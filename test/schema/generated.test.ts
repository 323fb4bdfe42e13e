// What is made from the schemas: the generated files are fresh and need no package, and the OpenAPI document is valid.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { describe, it } from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import { generate } from '../../scripts/gen-schema.ts';
import { buildOpenApi, type RouteDoc } from '../../src/schema/openapi.ts';
import { SCHEMAS } from '../../src/schema/registry.ts';

describe('generated files', () => {
  for (const { path, text } of generate()) {
    it(`${basename(path)} is what its schemas make`, () => assert.ok(readFileSync(path, 'utf8') === text, 'run scripts/gen-schema.ts'));
    it(`${basename(path)} imports our own files only`, () => {
      for (const [, from] of text.matchAll(/(?:\bfrom|require\(|import\()\s*['"]([^'"]+)/g)) assert.ok(from?.startsWith('./'), from);
    });
  }
});

const ROUTES: RouteDoc[] = [
  {
    method: 'POST',
    path: '/v1/batches',
    name: 'createBatch',
    summary: 'Create a batch',
    scope: 'write',
    query: null,
    body: 'BatchCreate',
    reply: 'BatchCreated',
    status: 201,
    errors: ['rate_limiter_not_found', 'target_not_allowed', 'rate_limited'],
    sample: 'curl …',
    tags: ['batches'],
  },
  {
    method: 'GET',
    path: '/v1/batches',
    name: 'listBatches',
    summary: 'List batches',
    description: 'Newest first.',
    scope: 'read',
    query: 'BatchListQuery',
    body: null,
    reply: 'BatchList',
    status: 200,
    errors: [],
    sample: 'curl …',
    tags: ['batches'],
  },
  {
    method: 'GET',
    path: '/v1/batches/{batch_id}/tasks',
    name: 'listBatchTasks',
    summary: 'List the tasks of a batch',
    scope: 'read',
    query: 'TaskListQuery',
    body: null,
    reply: 'TaskList',
    status: 200,
    errors: ['batch_not_found', 'rate_limited'],
    sample: 'curl …',
    tags: ['batches', 'tasks'],
  },
  {
    method: 'GET',
    path: '/healthz',
    name: 'health',
    summary: 'Is the process alive',
    scope: null,
    query: null,
    body: null,
    reply: null,
    status: 200,
    errors: [],
    sample: 'curl …',
    tags: ['operations'],
  },
];

interface Operation {
  parameters?: { name: string; in: string }[];
  responses: Record<string, { content?: Record<string, { examples: Record<string, unknown> }> }>;
  security: unknown[];
}

describe('buildOpenApi', () => {
  const document = JSON.parse(JSON.stringify(buildOpenApi(ROUTES, '1.2.3'))) as { paths: Record<string, Record<string, Operation>> };

  it('makes a valid OpenAPI 3.1 document', async () => {
    const validator = new Validator();
    const result = await validator.validate(structuredClone(document));
    assert.deepEqual(result.errors ?? [], []);
    assert.equal(validator.version, '3.1');
    assert.doesNotThrow(() => validator.resolveRefs());
  });

  it('refers to schemas that exist', () => {
    for (const [, name] of JSON.stringify(document).matchAll(/#\/components\/schemas\/(\w+)/g))
      assert.ok(Object.hasOwn(SCHEMAS, name ?? ''), name);
  });

  it('shows every parameter of a route', () => {
    const named = document.paths['/v1/batches/{batch_id}/tasks']?.get?.parameters?.map((one) => `${one.in} ${one.name}`);
    assert.deepEqual(named, ['path batch_id', 'query status', 'query limit', 'query offset', 'query cursor']);
    const created = document.paths['/v1/batches']?.post?.parameters?.map((one) => `${one.in} ${one.name}`);
    assert.deepEqual(created, ['header Idempotency-Key']);
  });

  it('shows every refusal of a route under its status', () => {
    const responses = document.paths['/v1/batches']?.post?.responses ?? {};
    assert.deepEqual(Object.keys(responses), ['201', '400', '401', '403', '409', '413', '415', '422', '429', '500', '503']);
    assert.deepEqual(Object.keys(responses['400']?.content?.['application/json']?.examples ?? {}), [
      'invalid_json',
      'validation_error',
      'target_not_allowed',
      'rate_limiter_not_found',
    ]);
  });

  it('asks for a token where a route has a scope', () => {
    assert.deepEqual(document.paths['/v1/batches']?.get?.security, [{ token: [] }]);
    assert.deepEqual(document.paths['/healthz']?.get?.security, []);
  });
});
