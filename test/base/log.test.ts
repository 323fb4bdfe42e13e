import assert from 'node:assert/strict';
import { test } from 'node:test';
import { backoff_ms } from '../../src/base/backoff.ts';
import { createLog, limitedLog } from '../../src/base/log.ts';

function capture(): { lines: Record<string, unknown>[]; log: ReturnType<typeof createLog> } {
  const lines: Record<string, unknown>[] = [];
  const write = (line: string): void => void lines.push(JSON.parse(line) as Record<string, unknown>);
  return { lines, log: createLog({ fields: { thread: 'main' }, destination: { write } }) };
}

test('a line is one JSON object with level, time and message', () => {
  const { lines, log } = capture();
  log.info({ port: 8080 }, 'listening');
  log.debug('not this');
  assert.equal(lines.length, 1);
  const { time, ...rest } = lines[0] ?? {};
  assert.deepEqual(rest, { level: 'info', thread: 'main', port: 8080, msg: 'listening' });
  assert.match(String(time), /^\d{4}-\d\d-\d\dT/);
});

test('secrets and payloads never reach the log, not even on an error of the store', () => {
  const { lines, log } = capture();
  const error = Object.assign(new Error('boom', { cause: new Error('why') }), { command: { name: 'evalsha', args: ['hunter2'] } });
  log.error({ err: error, token: 'hunter2', payload: 'hunter2', headers: { authorization: 'hunter2' } }, 'failed');
  const text = JSON.stringify(lines);
  assert.ok(!text.includes('hunter2'), text);
  assert.match(text, /boom/);
  assert.match(text, /why/);
});

test('a loop that keeps failing logs a line an interval, with the number left out', () => {
  const { lines, log } = capture();
  let now = 0;
  const limited = limitedLog(log, 3_000, () => now);
  for (now = 0; now < 6_001; now += 100) limited.error({ now }, 'again');
  limited.warn({}, 'something else');
  assert.deepEqual(
    lines.map(({ msg, suppressed }) => [msg, suppressed]),
    [
      ['again', undefined],
      ['again', 29],
      ['again', 29],
      ['something else', undefined],
    ],
  );
});

test('waits double from the least to the most, and spread over their upper half', () => {
  const range = { min_ms: 100, max_ms: 1_000 };
  assert.deepEqual(
    [0, 1, 2, 3, 4, 5, 10_000].map((failures) => backoff_ms(failures, range, () => 0)),
    [0, 50, 100, 200, 400, 500, 500],
  );
  assert.equal(
    backoff_ms(2, range, () => 0.5),
    150,
  );
});
