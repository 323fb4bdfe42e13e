import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { specOf } from '../../src/delivery/spec.ts';
import { backoffMs, settlementOf, settlementOfExpired } from '../../src/delivery/verdict.ts';
import type { Outcome } from '../../src/outbound/call.ts';
import type { Claimed } from '../../src/store/partition.ts';

const NOW = 1_700_000_000_000;

function head(fields: object): Buffer {
  return Buffer.from(JSON.stringify({ target: 'https://example.com/hook', ...fields }));
}

function task(fields: Partial<Claimed> = {}): Claimed {
  const flight = { name: 'core,0,0,1,0,30,f:acme:o1', core: 'core', origin: 'o1', base: 0, limit: null };
  return {
    flight,
    index: 0,
    single: false,
    account_id: 'acme',
    attempt: 1,
    recoveries: 0,
    due_ms: NOW,
    granted_age_ms: 0,
    of: null,
    head: head({}),
    payload: null,
    ...fields,
  };
}

function outcome(fields: Partial<Outcome>): Outcome {
  return {
    verdict: 'success',
    status_code: 200,
    duration_ms: 5,
    sent_for_ms: 5,
    error: null,
    excerpt: null,
    retry_after_ms: null,
    points_used: null,
    ...fields,
  };
}

const FAILED = outcome({ verdict: 'retry', status_code: 500, error: { code: 'http_status', message: 'HTTP 500' } });

function settle(policy: object, result: Outcome, fields: Partial<Claimed> = {}, dice = 0) {
  const spec = specOf(head(policy));
  return settlementOf(task(fields), spec, result, { now_ms: NOW, dice });
}

describe('what becomes of an attempt', () => {
  test('a success is completed, whatever else is said', () => {
    assert.deepEqual(settle({}, outcome({ excerpt: 'ok' })), {
      flight: task().flight,
      index: 0,
      verdict: 'c',
      delay_ms: 0,
      result: JSON.stringify([NOW, 1, 0, 200, 5, null, null, 'ok']),
    });
  });

  test('a failure is retried while retries are left: three by default', () => {
    const verdicts = [1, 2, 3, 4].map((attempt) => settle({}, FAILED, { attempt }).verdict);
    assert.deepEqual(verdicts, ['r', 'r', 'r', 'f']);
    assert.equal(settle({ retry: { max_retries: 0 } }, FAILED).verdict, 'f');
  });

  test('an attempt that closes its limiter is told of, and not counted', () => {
    const flight = {
      ...task().flight,
      limit: { lane: 'l', kind: 'w', cost: 1, granted_ms: String(NOW), first_ms: NOW, life_ms: 1_000, spare: false, cools: true },
    };
    const refused = outcome({ ...FAILED, status_code: 429, retry_after_ms: 1_000 });
    const { verdict, cool_ms, result } = settle({}, refused, { flight, attempt: 2 });
    assert.deepEqual([verdict, cool_ms], ['k', 1_000]);
    assert.deepEqual(JSON.parse(result).slice(0, 4), [NOW, 1, 0, 429]);
  });

  test('starts that died with their process use up no retry', () => {
    assert.equal(settle({}, FAILED, { attempt: 5, recoveries: 2 }).verdict, 'r');
    assert.equal(settle({}, FAILED, { attempt: 6, recoveries: 2 }).verdict, 'f');
  });

  test('what is final fails at once', () => {
    assert.equal(settle({}, outcome({ ...FAILED, verdict: 'final', status_code: 410 })).verdict, 'f');
  });

  test('Retry-After wins where it is later than the back-off, and only then', () => {
    assert.equal(settle({}, outcome({ ...FAILED, retry_after_ms: 60_000 })).delay_ms, 60_000);
    assert.equal(settle({ retry: { delay: 100 } }, outcome({ ...FAILED, retry_after_ms: 1_000 })).delay_ms, 50_000);
  });

  test('a retry that could not start by valid_until is a failure with error expired', () => {
    const valid_until = new Date(NOW + 400).toISOString();
    const settled = settle({ valid_until }, FAILED);
    assert.equal(settled.verdict, 'f');
    assert.match(settled.result, /"expired"/);
    assert.equal(settle({ valid_until: new Date(NOW + 600).toISOString() }, FAILED).verdict, 'r');
  });

  test('a retry that its limiter would not let start any more comes to that when it is too old, and no sooner', () => {
    const at = (invalid_ms: number | null, spec: object = { retry: { delay: 60, backoff: 'fixed' } }) => {
      const { verdict, delay_ms, result } = settlementOf(task(), specOf(head(spec)), outcome(FAILED), { now_ms: NOW, dice: 0, invalid_ms });
      assert.match(result, /"http_status"/);
      return [verdict, delay_ms];
    };
    assert.deepEqual(
      [at(null), at(NOW + 60_000)],
      [
        ['r', 30_000],
        ['r', 30_000],
      ],
    );
    assert.deepEqual(
      [at(NOW + 2_000), at(NOW - 5)],
      [
        ['r', 2_100],
        ['r', 100],
      ],
    );
    assert.deepEqual(at(NOW, { retry: { max_retries: 0 } }), ['f', 0]);
  });

  test('a call that the shutdown ended is handed back without a trace', () => {
    const stopped = outcome({ verdict: 'retry', status_code: null, error: { code: 'shutdown', message: 'x' } });
    assert.deepEqual(settle({}, stopped), { flight: task().flight, index: 0, verdict: 's', delay_ms: 0, result: '' });
  });

  test('a task that came too late to start counts no attempt', () => {
    assert.deepEqual(JSON.parse(settlementOfExpired(task({ attempt: 2 }), NOW).result).slice(0, 4), [NOW, 1, 0, null]);
  });
});

describe('back-off', () => {
  const at = (retry: object, failures: number, dice: number): number => backoffMs(specOf(head({ retry })), failures, dice);

  test('lies between half of the delay and the delay', () => {
    assert.equal(at({ delay: 10 }, 1, 0), 5_000);
    assert.equal(at({ delay: 10 }, 1, 1), 10_000);
  });

  test('doubles, grows or stays, as the policy says, up to its maximum', () => {
    assert.deepEqual(
      [1, 2, 3, 4].map((n) => at({ delay: 1 }, n, 1)),
      [1_000, 2_000, 4_000, 8_000],
    );
    assert.deepEqual(
      [1, 2, 3].map((n) => at({ delay: 2, backoff: 'linear' }, n, 1)),
      [2_000, 4_000, 6_000],
    );
    assert.deepEqual(
      [1, 2, 3].map((n) => at({ delay: 2, backoff: 'fixed' }, n, 1)),
      [2_000, 2_000, 2_000],
    );
    assert.equal(at({ delay: 1, max_delay: 5 }, 25, 1), 5_000);
  });
});
