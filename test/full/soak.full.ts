// A million tasks, kept for a minute after their batches ended: neither Redis nor the engine grows.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { soak } from '../engine/soak.ts';

const RETENTION_S = 60;
const SAMPLE_MS = 1_000;
/** Of the mean of an earlier quarter; how fast the work comes, and with it what is kept of a minute, varies as much. */
const GROWTH_MAX = 1.2;

test('a million tasks: memory stays what it was after the first minute', async (t) => {
  const { redis_bytes, rss_bytes, took_ms } = await soak({ tasks: 1_000_000, retention_s: RETENTION_S, sample_ms: SAMPLE_MS });
  t.diagnostic(`${Math.round(took_ms / 1_000)} s, ${Math.round(1e9 / took_ms)} tasks a second`);
  for (const [what, all] of Object.entries({ redis: redis_bytes, engine: rss_bytes })) {
    const steady = all.slice((RETENTION_S * 1_000) / SAMPLE_MS);
    assert.ok(steady.length >= 8, 'too fast to say: it was over with the first minute');
    const half = Math.floor(steady.length / 2);
    const [early, late] = [mean(steady.slice(0, half)), mean(steady.slice(half))];
    t.diagnostic(
      `${what}: ${mb(early)} MB, then ${mb(late)} MB, at most ${mb(Math.max(...all))} MB, ${slope(steady).toFixed(2)} MB a minute`,
    );
    assert.ok(late / early < GROWTH_MAX, `${what} grew from ${early} to ${late}`);
  }
});

function mean(values: readonly number[]): number {
  return values.reduce((a, b) => a + b, 0) / values.length;
}

function mb(bytes: number): number {
  return Math.round(bytes / 1_048_576);
}

/** Of the straight line through the samples, in MB a minute. */
function slope(values: readonly number[]): number {
  const middle = (values.length - 1) / 2;
  const level = mean(values);
  const rise = values.reduce((sum, value, i) => sum + (i - middle) * (value - level), 0);
  const run = values.reduce((sum, _, i) => sum + (i - middle) ** 2, 0);
  return ((rise / run / 1_048_576) * 60_000) / SAMPLE_MS;
}
