// What a caller is told of a task, and what is stored of it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { takeOne } from '../../src/api/intake.ts';
import { newTaskBytes, taskBytes } from '../../src/api/present.ts';
import { newCore } from '../../src/base/id.ts';
import { egressPolicy } from '../../src/outbound/addresses.ts';
import { parseJson } from '../../src/schema/json.ts';
import type { TaskInput } from '../../src/schema/types.gen.ts';
import type { BatchRow } from '../../src/store/batches.ts';

const NOW_MS = Date.parse('2026-01-31T09:00:00Z');
const CORE = newCore(3, NOW_MS);
const POLICY = egressPolicy({ allow_private: false, allow_cidrs: [], deny_cidrs: [] });
const LIMITERS = new Map([['slow', { core: 'SLOW', letter: 'p', cost_max: null }]]);
const TRACE = { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', tracestate: 'a="b"' };
const TRAY: BatchRow = {
  ...{ core: CORE, account_id: 'a', status: null, total: 1, completed: 0, failed: 0, cancelled: 0, running: 0, created_ms: NOW_MS - 500 },
  ...{ updated_ms: NOW_MS, finished_ms: null, doc: '{}', bases: [0], undealt: null, held: false },
};

const BODIES: Record<string, string> = {
  'only a target': '{"target":"https://example.com/a"}',
  'a payload of its own spelling':
    '{"payload": {"n": 1.0, "s": "ü\\u00fc"}, "target":{"url":"https://example.com/?q=\\"ü","method":"PUT"}}',
  'headers, whose values are kept to themselves': '{"target":{"url":"https://example.com/","headers":{"X-Key":"a\\"b"}},"payload":null}',
  'all that a task may have':
    '{"target":"https://example.com/a","rate_limiter":"slow","points_cost":2,"timeout":1.5,"retry":{"max_retries":3},' +
    '"idempotency_key":"k","execute_after":"2026-01-31T10:00:00Z","valid_until":"2026-01-31T11:00:00Z","payload":[1]}',
};

for (const [what, body] of Object.entries(BODIES)) {
  test(`a task is answered as it is read later: ${what}`, () => {
    const input = inputOf(body);
    const { head, payload } = takeOne(input, { policy: POLICY, at_ms: NOW_MS, trace: TRACE, limiters: LIMITERS });
    const row = { core: CORE, index: 7, status: 'queued', expired: false, result: null, head, payload } as const;
    assert.equal(newTaskBytes(input, NOW_MS, CORE, 7, payload).toString(), taskBytes(row, TRAY).toString());
  });

  test(`what is stored of a task is what was given but for its payload, when, and its trace: ${what}`, () => {
    const { head } = takeOne(inputOf(body), { policy: POLICY, at_ms: NOW_MS, trace: TRACE, limiters: LIMITERS });
    const { payload: _, ...given } = JSON.parse(body) as Record<string, unknown>;
    assert.deepEqual(JSON.parse(head.toString()), { ...given, at: NOW_MS, ...TRACE });
    const bare = takeOne(inputOf(body), { policy: POLICY, at_ms: null, trace: null, limiters: LIMITERS });
    assert.deepEqual(JSON.parse(bare.head.toString()), given);
  });
}

function inputOf(body: string): TaskInput {
  const parsed = parseJson(Buffer.from(body));
  assert.ok(parsed.ok);
  return parsed.value as TaskInput;
}
