// The rows that take a task apart, in their small size: that they run, count right and are whole.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { CLAIM_MAX } from '../../src/base/limits.ts';
import { runBench } from '../helpers/bench-run.ts';

const SIZES = [10, 100, 1_000];
const KINDS = ['window', 'bucket', 'leaky', 'points', 'concurrent'];

type Figures = Record<string, number | null>;

let results: Record<string, Figures>;
before(async () => {
  results = ((await runBench('main', '--smoke', 'lua_cost', 'mixed', 'guarantees')) as { results: Record<string, Figures> }).results;
});

function figuresOf(row: string): Figures {
  const figures = results[row] ?? {};
  for (const [name, value] of Object.entries(figures)) {
    if (value === null && /_us$/.test(name) && process.platform !== 'linux') continue;
    assert.ok(typeof value === 'number' && Number.isFinite(value), `${row}.${name} is ${value}`);
  }
  return figures;
}

test('each script of a task costs Redis something, a call and a task, at three sizes', () => {
  const figures = figuresOf('lua_cost');
  const scripts = ['create', 'add', 'single', 'claim', 'settle', 'tick_with_all_due', 'settle_telling', 'claim_notes'];
  for (const name of [...scripts, ...KINDS.map((kind) => `limiter_grant_${kind}`)])
    for (const size of SIZES)
      for (const each of ['call', 'task']) assert.ok((figures[`${name}_${size}_us_a_${each}`] ?? 0) > 0, `${name} ${size} ${each}`);
  // A call of ten tasks is one call.
  assert.equal(Math.round((figures['claim_10_us_a_call'] ?? 0) / (figures['claim_10_us_a_task'] ?? 0)), 10);
});

test('of the mixed load seven tenths are reads, two creates, one adds, and all that it made is done', () => {
  const { requests, read_requests, create_requests, add_requests } = figuresOf('mixed');
  // Clients begin at different places of the cycle, so a short run has them nearly.
  for (const [part, share] of [
    [read_requests, 0.7],
    [create_requests, 0.2],
    [add_requests, 0.1],
  ] as const)
    assert.ok(Math.abs((part ?? 0) / (requests ?? 0) - share) < 0.05, `${part} of ${requests}, not ${share}`);
});

test('each guarantee is measured, of the server and of Redis', () => {
  const figures = figuresOf('guarantees');
  const names = ['plain', 'signature', 'guard', 'on_finish', 'on_progress', 'replica', 'replicated', 'metrics_scrape'];
  for (const name of [...names, ...KINDS.map((kind) => `limiter_${kind}`)])
    for (const part of ['engine', 'redis']) assert.ok(`${name}_${part}_us` in figures, `${name} ${part}`);
  // A claim of CLAIM_MAX tasks of one batch is one lease: it is written, looked at and taken away.
  assert.ok((figures['lease_commands'] ?? 0) > 2 / CLAIM_MAX);
  assert.ok((figures['lease_redis_us'] ?? 0) > 0);
});
