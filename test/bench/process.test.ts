// What the benches say of the CPU of processes.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { cpuByProcess, cpuSeconds, cpuSince } from '../../bench/lib/process.ts';

const LINUX = process.platform === 'linux';
/** The system counts in steps of 10 ms. */
const STEP_S = 0.05;
const BUSY = 'const until = process.cpuUsage().user + 300_000; while (process.cpuUsage().user < until);';

test('the CPU of a process is what it used itself, by all its threads', () => {
  if (!LINUX) return assert.ok(Number.isNaN(cpuSeconds(process.pid)), 'no other system tells');
  const until = process.cpuUsage().user + 300_000;
  while (process.cpuUsage().user < until);
  const { user, system } = process.cpuUsage();
  assert.ok(Math.abs(cpuSeconds(process.pid) - (user + system) / 1e6) < STEP_S);
});

test('it is told by what processes run, and of those that have ended together', async () => {
  if (!LINUX) return assert.deepEqual(Object.keys(cpuByProcess()), ['bench']);
  const before = cpuByProcess();
  const busy = spawn(process.execPath, ['-e', `${BUSY} process.stdout.write('.'); process.stdin.resume();`], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  await once(busy.stdout, 'data');
  const running = cpuSince(before);
  assert.ok((running['node'] ?? 0) >= 0.3 - STEP_S, `${running['node']} s`);
  busy.stdin.end();
  await once(busy, 'exit');
  const ended = cpuSince(before);
  assert.ok((ended['ended'] ?? 0) >= 0.3 - STEP_S, `${ended['ended']} s`);
  assert.equal(ended['node'], undefined);
});
