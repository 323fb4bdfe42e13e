// Bodies with many tasks: all faults of an atomic one, each bad task of the other kind, and bounds on both.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type BodyCheck, checkBatchCreate, checkTasksAdd, REJECTED_MAX, rejectedTasks } from '../../src/schema/batch-check.ts';
import { check } from '../../src/schema/check.ts';

const NOW_MS = Date.UTC(2026, 0, 15, 12);
const TASK = { target: 'https://example.com/hook' };
const HOOK = { url: 'https://example.com/notify' };

function lines(result: BodyCheck<unknown>): string[] {
  return result.kind === 'refused' ? result.faults.map(({ path, message }) => `${path} ${message}`) : [];
}

function create(fields: Record<string, unknown>): string[] {
  return lines(checkBatchCreate({ tasks: [TASK], ...fields }, NOW_MS));
}

describe('checkBatchCreate', () => {
  const GOOD: Record<string, unknown>[] = [
    {},
    { description: '' },
    { description: '😀'.repeat(1024) },
    { description: 'two\nlines\tand a tab' },
    { notifications: {} },
    {
      notifications: {
        on_progress: { ...HOOK, min_interval: 0.5 },
        on_finish: HOOK,
        on_success: HOOK,
        on_death: HOOK,
        on_complete: { ...HOOK, method: 'PUT' },
      },
    },
    { notifications: { on_finish: { ...HOOK, headers: { authorization: 'x' } } } },
    { options: {} },
    { options: { atomic: true, expiration: 720, hold: true } },
    { options: { expiration: 0.01 } },
    { options: { expiration: 1.0 } },
    { labels: {} },
    { labels: Object.fromEntries(Array.from({ length: 16 }, (_, i) => [`k.${i}_-`, 'é'.repeat(64)])) },
  ];
  for (const fields of GOOD) {
    it(`takes ${JSON.stringify(fields).slice(0, 80)}`, () => assert.deepEqual(create(fields), []));
  }

  const BAD: [Record<string, unknown>, ...string[]][] = [
    [{ tasks: undefined }, '/tasks is required'],
    [{ tasks: [] }, '/tasks must have at least 1 item'],
    [{ tasks: null }, '/tasks must be an array'],
    [{ tasks: TASK }, '/tasks must be an array'],
    [{ tasks: [null] }, '/tasks/0 must be an object'],
    [{ description: 5 }, '/description must be a string'],
    [{ description: 'x'.repeat(1025) }, '/description must have at most 1024 characters'],
    [{ description: `${'😀'.repeat(1024)}x` }, '/description must have at most 1024 characters'],
    [{ description: 'a\u0000b' }, '/description must be well-formed text without control characters (\\n and \\t aside)'],
    [{ description: 'a\rb' }, '/description must be well-formed text without control characters (\\n and \\t aside)'],
    [{ description: 'a\u0085b' }, '/description must be well-formed text without control characters (\\n and \\t aside)'],
    [{ description: '\ud800' }, '/description must be well-formed text without control characters (\\n and \\t aside)'],
    [{ notifications: [] }, '/notifications must be an object'],
    [{ notifications: { on_end: HOOK } }, '/notifications/on_end is not a known field'],
    [{ notifications: { on_finish: HOOK.url } }, '/notifications/on_finish must be an object'],
    [{ notifications: { on_finish: {} } }, '/notifications/on_finish/url is required'],
    [{ notifications: { on_finish: { url: 'ftp://x' } } }, '/notifications/on_finish/url must begin with http:// or https://'],
    [{ notifications: { on_finish: { ...HOOK, method: 'GET' } } }, '/notifications/on_finish/method must be one of POST, PUT, PATCH'],
    [
      { notifications: { on_finish: { ...HOOK, headers: { Host: 'x' } } } },
      '/notifications/on_finish/headers/Host is set by Sluice or HTTP itself and cannot be given',
    ],
    [{ notifications: { on_finish: { ...HOOK, min_interval: 1 } } }, '/notifications/on_finish/min_interval is not a known field'],
    [{ notifications: { on_progress: { ...HOOK, min_interval: -1 } } }, '/notifications/on_progress/min_interval must be at least 0'],
    [{ options: true }, '/options must be an object'],
    [{ options: { atomic: 'false' } }, '/options/atomic must be true or false'],
    [{ options: { atomic: null } }, '/options/atomic must be true or false'],
    [{ options: { expiration: 0 } }, '/options/expiration must be more than 0'],
    [{ options: { expiration: 720.01 } }, '/options/expiration must be at most 720'],
    [{ options: { expiration: '24' } }, '/options/expiration must be a number'],
    [{ options: { hold: 1 } }, '/options/hold must be true or false'],
    [{ options: { expires: 1 } }, '/options/expires is not a known field'],
    [{ labels: { A: 'x' } }, '/labels/A is not a valid label key (1 to 32 of a-z, 0-9, "_", "." and "-")'],
    [{ labels: { ['x'.repeat(33)]: 'x' } }, `/labels/${'x'.repeat(33)} is not a valid label key (1 to 32 of a-z, 0-9, "_", "." and "-")`],
    [{ labels: { a: '' } }, '/labels/a must not be empty'],
    [{ labels: { a: 'x'.repeat(65) } }, '/labels/a must have at most 64 characters'],
    [{ labels: { a: 1 } }, '/labels/a must be a string'],
    [{ labels: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, 'x'])) }, '/labels must have at most 16 entries'],
    [{ payload: 1 }, '/payload is not a known field'],
    [
      { x: 1, options: { expiration: -1 }, tasks: [TASK, { target: 'ftp://a' }, { ...TASK, timeout: 0 }] },
      '/x is not a known field',
      '/options/expiration must be more than 0',
      '/tasks/1/target must begin with http:// or https://',
      '/tasks/2/timeout must be at least 1',
    ],
  ];
  for (const [fields, ...expected] of BAD) {
    it(`refuses ${JSON.stringify(fields).slice(0, 90)}`, () => assert.deepEqual(create(fields), expected));
  }

  for (const value of [null, [], 'x', 1]) {
    it(`refuses ${JSON.stringify(value)} as a body`, () => {
      assert.deepEqual(checkBatchCreate(value, NOW_MS), { kind: 'refused', faults: [{ path: '', message: 'must be an object' }] });
    });
  }

  it('refuses an atomic batch for one bad task, and shows the faults of all of them', () => {
    const tasks = [TASK, { target: 5 }, TASK, { ...TASK, retry: { delay: -1 } }, { ...TASK, valid_until: '2026-01-15T12:00:00Z' }];
    assert.deepEqual(create({ tasks }), [
      '/tasks/1/target must be a URL string or an object',
      '/tasks/3/retry/delay must be at least 0',
      '/tasks/4/valid_until must be in the future',
    ]);
  });

  it('shows a hundred faults and no more', () => {
    const tasks = Array.from({ length: 500 }, () => ({ target: 'ftp://x', timeout: 0 }));
    assert.equal(create({ tasks }).length, 100);
    assert.equal(create({ tasks: [Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`x${i}`, 1]))] }).length, 100);
    assert.equal(create({ tasks: [TASK], ...Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`x${i}`, 1])) }).length, 100);
  });

  it('does not send back a name of any length', () => {
    const [line] = create({ ['x'.repeat(1_000_000)]: 1 });
    assert.ok((line ?? '').length < 1000);
  });

  it('leaves the bad tasks out where atomic is false', () => {
    const body = {
      tasks: [TASK, { target: 5 }, TASK, { target: 'ftp://x' }, { target: TASK.target, a: 1, b: 2 }],
      options: { atomic: false },
    };
    const result = checkBatchCreate(body, NOW_MS);
    assert.ok(result.kind === 'ok');
    assert.equal(result.value, body);
    assert.deepEqual(rejectedTasks(result.rejected), [
      { index: 1, message: 'must be a URL string or an object', path: '/tasks/1/target' },
      { index: 3, message: 'must begin with http:// or https://', path: '/tasks/3/target' },
      { index: 4, message: 'is not a known field', path: '/tasks/4/a' },
      { index: 4, message: 'is not a known field', path: '/tasks/4/b' },
    ]);
  });

  it('refuses a batch in which no task is valid, also where atomic is false', () => {
    assert.deepEqual(create({ tasks: [{ target: 5 }, {}], options: { atomic: false } }), [
      '/tasks/0/target must be a URL string or an object',
      '/tasks/1/target is required',
    ]);
  });

  it('refuses a batch for a fault of its own, also where atomic is false', () => {
    assert.deepEqual(create({ tasks: [TASK, {}], options: { atomic: false }, description: 1 }), [
      '/description must be a string',
      '/tasks/1/target is required',
    ]);
  });

  it('has a bound on the tasks it leaves out', () => {
    const tasks: unknown[] = [TASK, ...new Array<number>(REJECTED_MAX + 1).fill(1)];
    assert.deepEqual(create({ tasks, options: { atomic: false } }), [`/tasks must have at most ${REJECTED_MAX} tasks that are not valid`]);
    const result = checkBatchCreate({ tasks: tasks.slice(0, -1), options: { atomic: false } }, NOW_MS);
    assert.equal(result.kind === 'ok' && result.rejected.length, REJECTED_MAX);
  });
});

describe('checkTasksAdd', () => {
  it('takes tasks, and atomic at the top', () => {
    assert.deepEqual(checkTasksAdd({ tasks: [TASK], atomic: true }, NOW_MS).kind, 'ok');
    const partly = checkTasksAdd({ tasks: [TASK, {}], atomic: false }, NOW_MS);
    assert.deepEqual(partly.kind === 'ok' && partly.rejected, [
      { index: 1, faults: [{ path: '/tasks/1/target', message: 'is required' }] },
    ]);
  });

  it('refuses what only a new batch takes', () => {
    assert.deepEqual(lines(checkTasksAdd({ tasks: [TASK], options: { atomic: false } }, NOW_MS)), ['/options is not a known field']);
    assert.deepEqual(lines(checkTasksAdd({ tasks: [TASK, {}] }, NOW_MS)), ['/tasks/1/target is required']);
    assert.deepEqual(lines(checkTasksAdd({ tasks: [TASK], atomic: 0 }, NOW_MS)), ['/atomic must be true or false']);
  });
});

describe('the schemas of answers', () => {
  const AT = '2026-01-31T09:00:00.000Z';
  const STATS = { total: 3, pending: 1, completed: 1, failed: 1, cancelled: 0 };
  const LISTED = { id: 'batch_1', status: 'processing', stats: STATS, created_at: AT, updated_at: AT, completion_rate: 33.33 };

  it('are those of service.md', () => {
    const batch = { ...LISTED, description: 'x', notifications: {}, options: { atomic: true, expiration: 24, hold: false } };
    const result = { status_code: null, duration_ms: 12.5, error: { code: 'timeout', message: 'x' } };
    const target = { url: 'https://example.com', method: 'POST', headers: { authorization: '***' } };
    const task = {
      id: 'task_1',
      batch_id: 'batch_1',
      status: 'failed',
      target,
      payload: { a: 1 },
      created_at: AT,
      completed_at: AT,
      attempts: 4,
      result,
    };
    assert.deepEqual(check('Batch', batch), []);
    assert.deepEqual(check('BatchCreated', { ...batch, errors: [{ index: 0, message: 'x', path: '/tasks/0' }], duplicates: 1 }), []);
    assert.deepEqual(check('BatchList', { total: 1, batches: [LISTED] }), []);
    assert.deepEqual(check('BatchChange', { id: 'batch_1', status: 'cancelled', stats: STATS, updated_at: AT, completion_rate: 0 }), []);
    assert.deepEqual(check('TaskList', { total: 1, tasks: [task] }), []);
    assert.deepEqual(
      check('Task', { ...task, batch_id: null, result: { ...result, status_code: 200, error: null, response_excerpt: 'ok' } }),
      [],
    );
    assert.deepEqual(check('SigningSecrets', { secrets: [{ id: '1', secret: 'whsec_x', created_at: AT, expires_at: null }] }), []);
    assert.deepEqual(check('ErrorReply', { error: { code: 'batch_completed', message: 'x', details: { batch_id: 'x' } } }), []);
  });

  it('show what an answer must not have or lack', () => {
    assert.deepEqual(check('BatchList', { total: 1, batches: [{ ...LISTED, options: {} }] }), [
      { path: '/batches/0/options', message: 'is not a known field' },
    ]);
    assert.deepEqual(
      check('ErrorReply', { error: { code: 'nope', message: 'x' } }).map((fault) => fault.path),
      ['/error/details', '/error/code'],
    );
  });
});
