// Query strings: typed, with defaults, and never clamped, guessed or ignored.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parseQuery } from '../../src/schema/query.ts';

function faults(name: 'BatchListQuery' | 'TaskListQuery' | null, query: string): string[] {
  const result = parseQuery(name, query);
  return result.ok ? [] : result.faults.map(({ path, message }) => `${path} ${message}`);
}

describe('parseQuery', () => {
  it('fills in the defaults', () => {
    assert.deepEqual(parseQuery('BatchListQuery', ''), { ok: true, value: { limit: 100, offset: 0 } });
    assert.deepEqual(parseQuery('TaskListQuery', '&'), { ok: true, value: { limit: 100, offset: 0 } });
  });

  it('reads what is given, decoded', () => {
    const query = 'status=pending&limit=1000&offset=100000&label.env=a+b%20%C3%A9&label.x_y-z.1=2';
    const value = { status: 'pending', limit: 1000, offset: 100_000, 'label.env': 'a b é', 'label.x_y-z.1': '2' };
    assert.deepEqual(parseQuery('BatchListQuery', query), { ok: true, value });
    assert.deepEqual(parseQuery('BatchListQuery', new URLSearchParams(query)), { ok: true, value });
  });

  const INTEGERS = ['', '0x10', '1.0', '1e2', '+1', ' 1', '01', '-0', 'ten', '١', '1,000', '99999999999999999999'];
  for (const text of INTEGERS) {
    it(`takes no ${JSON.stringify(text)} for a number`, () => {
      assert.deepEqual(faults('TaskListQuery', `limit=${encodeURIComponent(text)}`), ['limit must be an integer']);
    });
  }

  const BAD: [string, ...string[]][] = [
    ['limit=0', 'limit must be at least 1'],
    ['limit=-1', 'limit must be at least 1'],
    ['limit=1001', 'limit must be at most 1000'],
    ['offset=-1', 'offset must be at least 0'],
    ['offset=100001', 'offset must be at most 100000'],
    ['status=cancelled', 'status must be one of pending, processing, completed, failed, expired'],
    ['status=', 'status must be one of pending, processing, completed, failed, expired'],
    ['status=pending&status=failed', 'status is given more than once'],
    ['limit=1&limit=1', 'limit is given more than once'],
    ['label.a=1&label.a=1', 'label.a is given more than once'],
    ['limits=1', 'limits is not a known parameter'],
    ['label=1', 'label is not a known parameter'],
    ['label.=1', 'label. is not a known parameter'],
    ['label.A=1', 'label.A is not a known parameter'],
    ['label.a=', 'label.a must not be empty'],
    ['toString=1', 'toString is not a known parameter'],
    ['__proto__=1', '__proto__ is not a known parameter'],
    ['%E0%A4%A=1', ' is not a well-formed query string'],
    ['status=%FF', ' is not a well-formed query string'],
    ['x&limit=0&offset=a', 'x is not a known parameter', 'limit must be at least 1', 'offset must be an integer'],
    [Array.from({ length: 65 }, (_, i) => `label.k${i}=1`).join('&'), ' has too many parameters'],
  ];
  for (const [query, ...expected] of BAD) {
    it(`refuses ${query.slice(0, 60)}`, () => assert.deepEqual(faults('BatchListQuery', query), expected));
  }

  it('lets a list of tasks be filtered by its own statuses', () => {
    assert.deepEqual(faults('TaskListQuery', 'status=queued'), []);
    assert.deepEqual(faults('TaskListQuery', 'status=cancelled'), ['status must be one of queued, processing, completed, failed']);
    assert.deepEqual(faults('TaskListQuery', 'label.a=1'), ['label.a is not a known parameter']);
  });

  it('takes nothing where an endpoint has no parameters', () => {
    assert.deepEqual(parseQuery(null, ''), { ok: true, value: {} });
    assert.deepEqual(faults(null, 'a=1'), ['a is not a known parameter']);
  });
});
