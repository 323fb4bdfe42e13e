// The doctor finds what it is for, and changes nothing; plans; what is made from the command table.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { generate as costs } from '../../scripts/gen-costs.ts';
import { staleDocs } from '../../scripts/gen-docs.ts';
import { COSTS } from '../../src/cli/costs.gen.ts';
import { judge } from '../../src/cli/doctor-redis.ts';
import type { Finding } from '../../src/cli/finding.ts';
import { planFor } from '../../src/cli/plan.ts';
import type { RedisFacts } from '../../src/store/diagnose.ts';
import { startRedis } from '../helpers/redis.ts';
import { freshDir, sluice } from './sluice.ts';

async function doctor(env: Record<string, string>, ...args: string[]): Promise<{ code: number | null; findings: Map<string, Finding> }> {
  const { code, out, err } = await sluice(['doctor', '--json', ...args], env);
  assert.equal(err, '');
  const { findings } = JSON.parse(out) as { findings: Finding[] };
  return { code, findings: new Map(findings.map((one) => [one.check, one])) };
}

test('a Redis that throws work away is a fault, one without memory limit or append-only file a warning, each with its mend', async () => {
  const { redis, path } = await startRedis();
  const env = { SLUICE_REDIS_URL: `unix://${path}` };
  const before = await doctor(env);
  assert.equal(before.findings.get('redis eviction')?.state, 'ok');
  assert.equal(before.findings.get('redis version')?.state, 'ok');
  assert.equal(before.findings.get('redis clock')?.state, 'ok');
  for (const check of ['redis memory', 'redis persistence']) assert.equal(before.findings.get(check)?.state, 'warning', check);
  assert.match(before.findings.get('redis persistence')?.mend ?? '', /CONFIG SET appendonly yes/);

  await redis.config('SET', 'maxmemory-policy', 'allkeys-lru');
  const after = await doctor(env);
  assert.deepEqual([after.code, after.findings.get('redis eviction')?.state], [4, 'fault']);

  for (const command of ['maxmemory-policy noeviction', 'maxmemory 1gb', 'appendonly yes'])
    await redis.config('SET', command.split(' ')[0] ?? '', command.split(' ')[1] ?? '');
  const mended = await doctor(env);
  const well = [...mended.findings.values()].filter(({ check }) => check.startsWith('redis')).map(({ state }) => state);
  assert.deepEqual([mended.code, new Set(well)], [0, new Set(['ok'])]);
  assert.equal(await redis.dbsize(), 0, 'it wrote nothing');
});

test('it says what it sees of the machine', async () => {
  const { findings } = await doctor({ SLUICE_DATA_DIR: freshDir() }, '--resolve', 'localhost');
  for (const check of ['node', 'uWebSockets.js', 'dns', 'disk']) assert.equal(findings.get(check)?.state, 'ok', check);
  if (process.platform === 'linux') assert.match(findings.get('glibc')?.found ?? '', /^\d+\.\d+$/);
});

test('nobody there, and settings that are wrong, are faults', async () => {
  const away = await doctor({ SLUICE_REDIS_URL: 'redis://127.0.0.1:1' });
  assert.deepEqual([away.code, away.findings.get('redis')?.state], [4, 'fault']);
  const wrong = await doctor({ SLUICE_PROT: '1' });
  assert.deepEqual([wrong.code, wrong.findings.get('settings')?.state], [4, 'fault']);
});

test('a replica, a Cluster with slots missing, a disk that fails and clocks apart are told', () => {
  const fine: RedisFacts = {
    name: 'a:1',
    version: '7.2.0',
    valkey: false,
    mode: 'cluster',
    role: 'master',
    maxmemory_policy: 'noeviction',
    maxmemory_bytes: 100,
    used_bytes: 10,
    fragmentation: 1,
    append_only: true,
    append_failed: false,
    append_fsync: 'everysec',
    snapshot_failed: false,
    replicas: 1,
    cluster_state: 'ok',
    clock_ahead_ms: 2,
    round_trip_ms: 0.3,
  };
  const wrong = (change: Partial<RedisFacts>): string[] =>
    judge({ ...fine, ...change }).flatMap(({ check, state }) => (state === 'ok' ? [] : [`${check}: ${state}`]));
  assert.deepEqual(wrong({}), []);
  assert.deepEqual(wrong({ version: '6.2.1' }), ['redis version: fault']);
  assert.deepEqual(wrong({ version: '8.0.0', valkey: true, used_bytes: 90 }), ['redis memory: warning']);
  assert.deepEqual(wrong({ role: 'slave' }), ['redis role: fault']);
  assert.deepEqual(wrong({ cluster_state: 'fail' }), ['redis cluster: fault']);
  assert.deepEqual(wrong({ replicas: 0 }), ['redis replicas: warning']);
  assert.deepEqual(wrong({ append_failed: true }), ['redis persistence: fault']);
  assert.deepEqual(wrong({ append_fsync: 'no' }), ['redis persistence: warning']);
  assert.deepEqual(wrong({ clock_ahead_ms: -5_000 }), ['redis clock: warning']);
});

test('a plan grows with the load, and holds what was measured', () => {
  const load = {
    tasks_per_s: 100,
    payload_bytes: 256,
    answer_bytes: 0,
    retention_s: 86_400,
    call_ms: 100,
    attempts: 1,
    waiting: 0,
    single: false,
  };
  const small = planFor(load);
  assert.deepEqual([small.redis.masters, small.sluice.processes, small.partitions], [1, 2, 16]);
  assert.equal(small.tasks_kept, 8_640_000);
  assert.ok(small.bytes_per_task > COSTS.waiting_bytes && small.bytes_per_task < 2 * COSTS.waiting_bytes);
  const large = planFor({ ...load, tasks_per_s: 100_000, retention_s: 3_600 });
  assert.ok(large.sluice.threads > small.sluice.threads && large.partitions >= 4 * large.sluice.threads && large.redis.masters > 1);
  assert.equal(Math.log2(large.partitions) % 1, 0);
  const slow = planFor({ ...load, call_ms: 60_000 });
  assert.equal(slow.sluice.calls_in_flight, 6_000);
  assert.equal(slow.sluice.threads, 2);
});

test('what is made from tables and benches is not stale', () => {
  assert.deepEqual(staleDocs(), []);
  assert.equal(readFileSync(new URL('../../src/cli/costs.gen.ts', import.meta.url), 'utf8'), costs());
});

test('bash completes commands, options and choices', async () => {
  const { code, out } = await sluice(['completion', 'bash'], {});
  assert.equal(code, 0);
  const script = join(freshDir(), 'sluice.bash');
  writeFileSync(script, out);
  const complete = (...words: string[]): string[] => {
    const line = `source '${script}'; COMP_WORDS=(sluice ${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length}; _sluice; echo "\${COMPREPLY[*]}"`;
    return execFileSync('bash', ['--norc', '-c', line], { encoding: 'utf8' }).trim().split(' ');
  };
  assert.deepEqual(complete('ba'), ['batch']);
  assert.deepEqual(complete('batch', 'ca'), ['cancel']);
  assert.deepEqual(complete('partitions', ''), ['grow']);
  assert.deepEqual(complete('token', 'create', '--sc'), ['--scope']);
  assert.deepEqual(complete('token', 'create', '--scope', 'w'), ['write']);
  assert.deepEqual(complete('plan', '--tasks'), ['--tasks-per-s']);
  const zsh = await sluice(['completion', 'zsh'], {});
  assert.match(zsh.out, /^#compdef sluice\n/);
  assert.equal((await sluice(['completion', 'fish'], {})).code, 2);
});
