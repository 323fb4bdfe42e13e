// What a notification sends, and what becomes of it, from its record alone.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { notificationOf } from '../../src/delivery/notification.ts';
import { settlementOfNotification } from '../../src/delivery/verdict.ts';
import type { Outcome } from '../../src/outbound/call.ts';
import type { Claimed } from '../../src/store/partition.ts';

const NOW = 1_795_262_400_000;
const CORE = '00ABCDEFG123456789';
const DOC = JSON.stringify({
  notifications: {
    on_progress: { url: 'https://A.example:443/p?x=1', min_interval: 2 },
    on_finish: { url: 'https://b.example/hook', method: 'PUT', headers: { 'x-one': '1', 'x-two': '2' } },
    on_death: { url: 'https://c.example/' },
  },
});

function noteOf(record: string, fields: Partial<Claimed> = {}): Claimed {
  const flight = { name: `${CORE}n,7,7,1,0,15,n:acme:o1`, core: `${CORE}n`, origin: 'o1', base: 0, limit: null };
  const of = { core: CORE, doc: DOC, created_ms: NOW - 60_000 };
  const place = { flight, index: 7, single: false, account_id: 'acme', due_ms: NOW, of };
  return { ...place, granted_age_ms: 0, attempt: 1, recoveries: 0, head: Buffer.alloc(0), payload: Buffer.from(record), ...fields };
}

function outcome(fields: Partial<Outcome>): Outcome {
  const answer = { status_code: 500, duration_ms: 5, sent_for_ms: 5, excerpt: null, retry_after_ms: null, points_used: null };
  return { verdict: 'retry', error: { code: 'http_status', message: 'The target answered 500.' }, ...answer, ...fields };
}

describe('the request', () => {
  test('of a batch that goes on: no cancelled, no end, a rate of two decimals', () => {
    const note = notificationOf(noteOf(`p,processing,3,1,0,0,${NOW},,1`));
    assert.deepEqual([note?.origin, note?.path, note?.method, note?.headers], ['https://a.example', '/p?x=1', 'POST', []]);
    assert.deepEqual([note?.webhook_id, note?.batch_id, note?.timeout_ms], [`batch_${CORE}_on_progress_7`, `batch_${CORE}`, 15_000]);
    assert.equal(
      note?.body.toString(),
      `{"event":"on_progress","batch":{"id":"batch_${CORE}","status":"processing","stats":{"total":3,"pending":2,"completed":1,"failed":0},` +
        '"created_at":"2026-11-21T11:59:00.000Z","completed_at":null,"completion_rate":33.33},"timestamp":"2026-11-21T12:00:00.000Z"}',
    );
  });

  test('of the end of a second round, with headers of the caller and cancelled tasks', () => {
    const note = notificationOf(noteOf(`f,cancelled,4,1,1,2,${NOW},${NOW - 1},2`));
    assert.deepEqual([note?.method, note?.headers, note?.webhook_id], ['PUT', ['x-one', '1', 'x-two', '2'], `batch_${CORE}_on_finish_2`]);
    const { batch } = JSON.parse(note?.body.toString() ?? '') as { batch: { stats: object; completed_at: string } };
    assert.deepEqual(batch.stats, { total: 4, pending: 0, completed: 1, failed: 1, cancelled: 2 });
    assert.equal(batch.completed_at, '2026-11-21T11:59:59.999Z');
  });

  test('of a failure names the task, what it said, in whatever characters, and when', () => {
    const result = JSON.stringify([NOW - 5, 4, 0, 500, 12, 'http_status', 'It said: "a, b"\n → no.']);
    const note = notificationOf(noteOf(`d,processing,9,0,1,0,${NOW},,1,12,${result}`));
    const { first_failure } = JSON.parse(note?.body.toString() ?? '') as { first_failure: object };
    assert.deepEqual(first_failure, {
      task_id: `task_${CORE}_12`,
      error: 'It said: "a, b"\n → no.',
      failed_at: '2026-11-21T11:59:59.995Z',
    });
    const unknown = notificationOf(noteOf(`d,processing,9,0,1,0,${NOW},,1,12,`));
    assert.match(unknown?.body.toString() ?? '', /"error":"The task failed."/);
  });

  test('is the same, byte for byte, at every attempt and in every process', () => {
    const record = `p,processing,3,1,0,0,${NOW},,1`;
    const first = notificationOf(noteOf(record));
    const other = { core: CORE, doc: DOC, created_ms: NOW - 60_000 };
    const later = notificationOf(noteOf(record, { attempt: 5, recoveries: 2, due_ms: NOW + 1e6, of: other }));
    assert.deepEqual(later, first);
  });

  test('there is none where the batch is gone', () => {
    assert.equal(notificationOf(noteOf(`p,processing,3,1,0,0,${NOW},,1`, { of: { core: CORE, doc: null, created_ms: 0 } })), null);
  });
});

describe('what becomes of it', () => {
  const DELAYS = [30_000, 120_000, 300_000, 600_000, 1_800_000];
  const attempt = fc.integer({ min: 1, max: 9 });
  const dice = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

  test('six tries, 10 % around the delays; more where the receiver asks for it; tries of lost processes do not count', () => {
    const property = fc.property(
      attempt,
      fc.nat({ max: 3 }),
      dice,
      fc.option(fc.nat({ max: 3_600_000 })),
      (tries, lost, chance, after_ms) => {
        const task = noteOf('', { attempt: tries + lost, recoveries: lost });
        const { verdict, delay_ms, result } = settlementOfNotification(task, DELAYS, outcome({ retry_after_ms: after_ms }), {
          now_ms: NOW,
          dice: chance,
        });
        const planned_ms = DELAYS[tries - 1];
        if (planned_ms === undefined) return assert.deepEqual([verdict, delay_ms], ['f', 0]);
        assert.equal(verdict, 'r');
        assert.ok(delay_ms >= Math.max(planned_ms * 0.9 - 1, after_ms ?? 0));
        assert.ok(delay_ms <= Math.max(planned_ms * 1.1 + 1, after_ms ?? 0));
        assert.equal((JSON.parse(result) as unknown[])[8], NOW + delay_ms, 'the log can say when');
      },
    );
    fc.assert(property);
  });

  test('a success delivers, a final refusal gives up, 410 does not, a shutdown and what was never sent hand back', () => {
    const now = { now_ms: NOW, dice: 0.5 };
    const success = settlementOfNotification(noteOf(''), DELAYS, outcome({ verdict: 'success', error: null, status_code: 204 }), now);
    assert.deepEqual([success.verdict, success.result], ['c', `[${NOW},1,0,204,5]`]);
    assert.equal(settlementOfNotification(noteOf(''), DELAYS, outcome({ verdict: 'final', status_code: 500 }), now).verdict, 'f');
    assert.equal(settlementOfNotification(noteOf(''), DELAYS, outcome({ verdict: 'final', status_code: 410 }), now).verdict, 'r');
    for (const code of ['shutdown', 'stale'] as const) {
      const unsent = outcome({ error: { code, message: '' } });
      assert.equal(settlementOfNotification(noteOf(''), DELAYS, unsent, now).verdict, 'b');
    }
  });
});
