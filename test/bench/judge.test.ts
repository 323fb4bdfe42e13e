import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withRows } from '../../bench/shown.ts';
import { judge, type TableRun } from '../../bench/table/judge.ts';
import { withTable } from '../../bench/table/readme.ts';
import type { Measure, Row } from '../../bench/table/row.ts';

const PACE: Measure = {
  ...{ number: '1', measure: 'pace ÷ peer', sluice: 'sluice.per_s', peer: 'peer.per_s', value: 'sluice/peer', better: 'higher' },
  ...{ must: 3, aim: 4 },
};

function rowWith(measure: Partial<Measure>): Row {
  const none = () => Promise.reject(new Error('nothing is started here'));
  return { name: 'row', what: '', sluice: none, peers: {}, measures: [{ ...PACE, ...measure }] };
}

const per_s = (...values: number[]) => values.map((value) => ({ per_s: value }));

test('a ratio is that of each repeat, and its median is held against must and aim', () => {
  const [line] = judge(rowWith({}), { sluice: per_s(30, 40, 90), peer: per_s(10, 20, 10) });
  assert.deepEqual(line?.ratio, { min: 2, median: 3, max: 9 });
  assert.deepEqual(line?.sluice, { min: 30, median: 40, max: 90 });
  assert.equal(line?.met, 'must');
});

test('where less is better, the bounds are upper ones', () => {
  const met = (value: number) =>
    judge(rowWith({ value: 'sluice', better: 'lower', must: 36, aim: 28 }), { sluice: per_s(value), peer: per_s(1) })[0]?.met;
  assert.deepEqual([28, 36, 36.1].map(met), ['aim', 'must', 'no']);
});

test('a time is compared upside down', () => {
  const [line] = judge(rowWith({ value: 'peer/sluice' }), { sluice: per_s(10), peer: per_s(45) });
  assert.equal(line?.ratio?.median, 4.5);
  assert.equal(line?.met, 'aim');
});

test('a ratio to a peer that is not here is no line, and an absolute figure stands alone', () => {
  assert.deepEqual(judge(rowWith({}), { sluice: per_s(10) }), []);
  const [line] = judge(rowWith({ value: 'sluice' }), { sluice: per_s(10) });
  assert.deepEqual([line?.peer, line?.ratio, line?.met], [null, null, 'aim']);
});

test('of a measure of all repeats together that is told and judged, and the repeats give its range', () => {
  const samples = { sluice: per_s(30, 40, 90), peer: per_s(10, 20, 10) };
  const together = { sluice: { per_s: 36 }, peer: { per_s: 12 } };
  const [line] = judge(rowWith({ together: true }), samples, together);
  assert.deepEqual(line?.ratio, { min: 2, median: 3, max: 9 });
  assert.deepEqual([line?.sluice.median, line?.peer?.median], [36, 12]);
  const [apart] = judge(rowWith({ together: true }), samples, { ...together, peer: { per_s: 6 } });
  assert.deepEqual([apart?.ratio?.median, apart?.met], [6, 'aim']);
  assert.equal(judge(rowWith({}), samples, together)[0]?.sluice.median, 40);
});

test('what is only shown is neither met nor missed', () => {
  assert.equal(judge(rowWith({ must: null, aim: null }), { sluice: per_s(1), peer: per_s(1) })[0]?.met, null);
});

test('the table of the last full run stands between its markers, whatever stood there', () => {
  const run = (date: string, smoke: boolean): TableRun => ({
    ...{ date, commit: 'abc', node: '20', redis: '7', cpu: 'a CPU', cores: 2, load: 0, smoke, repeats: 3, versions: {} },
    ...{ table: judge(rowWith({}), { sluice: per_s(30), peer: per_s(10) }), figures: {}, left_out: [] },
  });
  const results = [{ date: '2026-01-01', smoke: false, results: {} }, run('2026-01-02', false), run('2026-01-03', true)];
  const lines = results.map((line) => JSON.stringify(line)).join('\n');
  const readme = 'before\n<!-- The table of make bench/table, by make gen -->\nold\n<!-- end of the table -->\nafter\n';
  const written = withTable(readme, lines);
  assert.ok(written.startsWith('before\n') && written.endsWith('\nafter\n'));
  assert.match(written, /\n\| 1 \| pace ÷ peer \| 30 \| 10 \| 3 \| ≥ 3 \| ≥ 4 \| must \|\n/);
  assert.match(written, /2026-01-02/);
  assert.doesNotMatch(written, /old/);
  assert.equal(withTable(written, lines), written);
});

test('a row of README.md is of the last run that has all of it, and says which', () => {
  const run = (date: string, results: object, smoke = false): string =>
    JSON.stringify({ date, cpu: 'Intel(R) A Processor', smoke, results });
  const lines = [
    run('2026-01-01', { idle: { engine_cpu_percent: 1.234 }, limiter_million: { sent_per_s: 13.5 } }),
    run('2026-01-02', { idle: { engine_cpu_percent: 0.5 }, limiter_million: { sent_per_s: null } }),
    run('2026-01-03', { idle: { engine_cpu_percent: 9 } }, true),
    JSON.stringify({ date: '2026-01-04', smoke: false, table: [] }),
  ].join('\n');
  const written = withRows('before\n<!-- The rows of bench/main.ts, by make gen -->\nold\n<!-- end of the rows -->\nafter\n', lines);
  const rows = written
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .slice(2);
  assert.deepEqual(
    rows.map((line) => line.split(' | ').slice(1)),
    [
      ['13.5/s', '', '2026-01-01, Intel A |'],
      ['0.5 %', '', '2026-01-02, Intel A |'],
    ],
  );
  assert.equal(withRows(written, lines), written);
});
