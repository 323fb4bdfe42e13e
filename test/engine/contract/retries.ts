// Section 3 of the contract: what counts as success, what is tried again, when, and what is final.
import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { test } from 'node:test';
import type { Task } from '../../../src/schema/types.gen.ts';
import type { Answer } from '../../helpers/receiver.ts';
import { AT_ONCE, FORBIDDEN_URL, freshPath, type Stage } from '../stage.ts';

/** What a delay may be off by: the next turn of the partition, and a busy machine. */
const LATE_MS_MAX = 1_500;

export function retries({ client, receiver }: Stage): void {
  const { acme } = client;
  /** Runs one task against these answers; the task as it ended, and when its calls came. */
  const run = async (answers: Answer[], more: object): Promise<{ task: Task; calls: number; gaps_ms: number[] }> => {
    const path = freshPath();
    const { id } = await acme.createTask({ target: receiver.at(path, ...answers), ...more });
    const task = await acme.taskWhen(id, ({ status }) => status === 'completed' || status === 'failed');
    const times = receiver.to(path).map(({ at_ms }) => at_ms);
    return { task, calls: times.length, gaps_ms: times.slice(1).map((at_ms, n) => at_ms - (times[n] ?? 0)) };
  };
  const within = (gaps_ms: readonly number[], delays_ms: readonly number[]): void => {
    assert.equal(gaps_ms.length, delays_ms.length);
    for (const [n, delay_ms] of delays_ms.entries()) {
      const gap_ms = gaps_ms[n] ?? 0;
      assert.ok(gap_ms >= delay_ms / 2 - 2 && gap_ms <= delay_ms + LATE_MS_MAX, `${gaps_ms.join(', ')} ms for ${delays_ms.join(', ')}`);
    }
  };

  test('every 2xx is success', async () => {
    for (const status of [200, 201, 202, 204, 299]) {
      const { task, calls } = await run([{ status, body: '' }], { retry: AT_ONCE });
      assert.deepEqual([task.status, task.result?.status_code, calls], ['completed', status, 1]);
    }
  });

  test('other statuses are tried again while retries are left, then failed', async () => {
    for (const status of [400, 404, 409, 429, 500, 503]) {
      const { task, calls } = await run([{ status }], { retry: { ...AT_ONCE, max_retries: 2 } });
      assert.deepEqual(
        [task.status, task.attempts, task.result?.status_code, task.result?.error?.code, calls],
        ['failed', 3, status, 'http_status', 3],
      );
    }
  });

  test('without a policy there are three retries', async () => {
    const { task, calls, gaps_ms } = await run([{ status: 500 }, { status: 500 }, {}], {});
    assert.deepEqual([task.status, calls], ['completed', 3]);
    within(gaps_ms, [1_000, 2_000]);
  });

  test('fixed, linear and exponential back-off, with their jitter and their ceiling', async () => {
    const failing = [{ status: 500 }];
    const base = { max_retries: 3, delay: 0.4 };
    const [fixed, linear, exponential, capped] = await Promise.all([
      run(failing, { retry: { ...base, backoff: 'fixed' } }),
      run(failing, { retry: { ...base, backoff: 'linear' } }),
      run(failing, { retry: { ...base, backoff: 'exponential' } }),
      run(failing, { retry: { ...base, backoff: 'exponential', delay: 0.6, max_delay: 0.5 } }),
    ]);
    within(fixed.gaps_ms, [400, 400, 400]);
    within(linear.gaps_ms, [400, 800, 1_200]);
    within(exponential.gaps_ms, [400, 800, 1_600]);
    within(capped.gaps_ms, [500, 500, 500]);
  });

  test('Retry-After wins over the back-off where it is later, in seconds or as a date', async () => {
    const soon = { retry: { max_retries: 1, backoff: 'fixed', delay: 0.1 } };
    const [seconds, date, earlier] = await Promise.all([
      run([{ status: 503, headers: { 'retry-after': '2' } }, {}], soon),
      run([{ status: 429, headers: { 'retry-after': new Date(Date.now() + 3_000).toUTCString() } }, {}], soon),
      run([{ status: 503, headers: { 'retry-after': '0' } }, {}], { retry: { ...soon.retry, delay: 1 } }),
    ]);
    assert.ok((seconds.gaps_ms[0] ?? 0) >= 2_000 && (seconds.gaps_ms[0] ?? 0) < 2_000 + LATE_MS_MAX, String(seconds.gaps_ms));
    assert.ok((date.gaps_ms[0] ?? 0) >= 1_000, String(date.gaps_ms));
    within(earlier.gaps_ms, [1_000]);
    assert.deepEqual([seconds.task.status, date.task.status, earlier.task.status], ['completed', 'completed', 'completed']);
  });

  test('410 and X-Sluice-Retry: never are final', async () => {
    for (const answer of [{ status: 410 }, { status: 500, headers: { 'X-Sluice-Retry': 'never' } }]) {
      const { task, calls } = await run([answer], { retry: AT_ONCE });
      assert.deepEqual([task.status, task.attempts, calls], ['failed', 1, 1]);
    }
    const success = await run([{ status: 200, headers: { 'X-Sluice-Retry': 'never' } }], {});
    assert.equal(success.task.status, 'completed');
  });

  test('a redirect is never followed: it is a failed attempt', async () => {
    const elsewhere = freshPath();
    for (const status of [301, 302, 303, 307, 308]) {
      const { task, calls } = await run([{ status, headers: { location: receiver.at(elsewhere) } }], {
        retry: { ...AT_ONCE, max_retries: 1 },
      });
      assert.deepEqual([task.status, task.result?.status_code, calls], ['failed', status, 2]);
    }
    assert.equal(receiver.to(elsewhere).length, 0);
  });

  test('a timeout is a failed attempt, and takes as long as it was given', async () => {
    const { task, calls } = await run([{ hold: true }], { timeout: 1, retry: { ...AT_ONCE, max_retries: 1 } });
    assert.deepEqual(
      [task.status, task.attempts, task.result?.error?.code, task.result?.status_code, calls],
      ['failed', 2, 'timeout', null, 2],
    );
    const { duration_ms = 0 } = task.result ?? {};
    assert.ok(duration_ms >= 990 && duration_ms < 1_000 + LATE_MS_MAX, `${duration_ms} ms`);
  });

  test('once the status is here it decides: a body that is cut or never ends changes nothing', async () => {
    const [cut, dripping, failed] = await Promise.all([
      run([{ cut: true, body: 'half' }], {}),
      run([{ drip_ms: 20 }], { timeout: 1 }),
      run([{ cut: true, status: 500 }], { retry: { max_retries: 0 } }),
    ]);
    assert.deepEqual([cut.task.status, cut.calls], ['completed', 1]);
    assert.deepEqual([dripping.task.status, dripping.calls], ['completed', 1]);
    assert.deepEqual([failed.task.status, failed.task.result?.status_code], ['failed', 500]);
  });

  test('a connection that closes, a port where nobody is, a name that nobody has: tried again', async () => {
    const closed = await run([{ close: true }, {}], { retry: AT_ONCE });
    assert.deepEqual([closed.task.status, closed.calls], ['completed', 2]);
    const { id } = await acme.create({
      tasks: [`http://127.0.0.1:${await closedPort()}/`, 'http://127.0.0.1:1/', 'http://localhost:0/', 'http://nobody.invalid/'].map(
        (target) => ({
          target,
          retry: { ...AT_ONCE, max_retries: 1 },
        }),
      ),
    });
    await acme.ended(id, 'failed');
    const ends = (await acme.tasks(id)).tasks.map(({ attempts, result }) => [attempts, result?.status_code, result?.error?.code]);
    assert.deepEqual(ends, [
      [2, null, 'connect'],
      [2, null, 'connect'],
      [2, null, 'connect'],
      [2, null, 'dns'],
    ]);
  });

  test('a redirect to a forbidden address reaches nobody', async () => {
    const { task } = await run([{ status: 302, headers: { location: FORBIDDEN_URL } }], { retry: { max_retries: 0 } });
    assert.deepEqual([task.status, task.result?.status_code], ['failed', 302]);
  });
}

/** A port that was free a moment ago. */
async function closedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}
