// Flame graphs and the soak, in their small size.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { runBench } from '../helpers/bench-run.ts';

test('a flame graph has the frames of the main thread and of a callback thread, and needs nothing from elsewhere', async () => {
  const out = mkdtempSync(join(tmpdir(), 'sluice-flame-'));
  after(() => rmSync(out, { recursive: true, force: true }));
  const line = (await runBench('flame', '--smoke', '--out', out)) as {
    tasks: number;
    allocated_bytes_each: number;
    cpu_us_each_by_thread: Record<string, number>;
    allocated_bytes_each_by_thread: Record<string, number>;
    file: string;
  };
  // As the server counts; a create that it could not answer in time is not among them, though its tasks are.
  assert.ok(line.tasks > 0 && line.tasks <= 10_000, String(line.tasks));
  for (const thread of ['main', 'callbacks']) {
    assert.ok((line.cpu_us_each_by_thread[thread] ?? 0) > 0, JSON.stringify(line));
    assert.ok((line.allocated_bytes_each_by_thread[thread] ?? 0) > 0, JSON.stringify(line));
  }
  const page = readFileSync(line.file, 'utf8');
  assert.equal(page.match(/<svg /g)?.length, 2);
  assert.match(page, /delivery\/shard/);
  assert.doesNotMatch(page, /<(?:script|img|link)[^>]+(?:src|href)=/);
});

test('a soak says what was answered, how soon, and how memory goes', async () => {
  const { figures } = (await runBench('soak', '--minutes', '0.08', '--rate', '100')) as { figures: Record<string, number> };
  assert.ok((figures['requests'] ?? 0) > 100, JSON.stringify(figures));
  for (const name of ['read_p99_ms', 'create_p99_ms', 'add_p99_ms', 'redis_bytes_per_minute'])
    assert.ok(Number.isFinite(figures[name]), name);
});
