// `sluice bench` against a real engine: what it reports is what the engine and the receiver saw.
import assert from 'node:assert/strict';
import { createServer, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, test } from 'node:test';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis } from '../helpers/redis.ts';
import { begin, sluice } from './sluice.ts';

interface Report {
  label: string;
  tasks: number;
  batches: number;
  created: number;
  completed: number;
  failed: number;
  cancelled: number;
  unfinished: number;
  tasks_per_s: number | null;
  create: { tasks_per_s: number; p50_ms: number; p99_ms: number; limited: number };
  batch: { p50_ms: number | null; p99_ms: number | null; max_ms: number | null };
  received: { calls: number; tasks: number } | null;
}

const { path } = await startRedis();
const receiver = await startReceiver();
const engine = await startEngine({ redis_url: `unix://${path}` });
const client = api(engine, TOKENS.acme);
const env = { SLUICE_URL: engine.url, SLUICE_TOKEN: TOKENS.acme };

const ran = (args: string) => sluice(`bench ${args}`.split(' '), env);
const reportOf = (out: string): Report => JSON.parse(out) as Report;

test('a receiver of its own hears every task once, and the batches are gone afterwards', async () => {
  const { code, out, err } = await ran('--listen 127.0.0.1:0 --tasks 250 --json');
  assert.equal(code, 0, err);
  const report = reportOf(out);
  assert.deepEqual(
    [report.tasks, report.batches, report.created, report.completed, report.failed, report.unfinished],
    [250, 3, 250, 250, 0, 0],
  );
  assert.deepEqual(report.received, { calls: 250, tasks: 250 });
  for (const figure of [report.tasks_per_s, report.create.tasks_per_s, report.create.p50_ms, report.create.p99_ms, report.batch.max_ms])
    assert.ok(figure !== null && figure > 0, out);
  assert.ok(report.create.p50_ms <= report.create.p99_ms);
  assert.equal((await client.batches(`?label.sluice-bench=${report.label}`)).total, 0);
});

test('a target that is named is called, the payloads are as large as asked for, and batches stay where told', async () => {
  const { code, out, err } = await ran(`--target ${receiver.url}/named --tasks 12 --batch-tasks 5 --payload-bytes 64 --keep --json`);
  assert.equal(code, 0, err);
  const report = reportOf(out);
  assert.equal(report.received, null);
  const calls = await receiver.heard('/named', 12);
  assert.deepEqual([...new Set(calls.map(({ body }) => body.length))], [64]);
  assert.equal(new Set(calls.map(({ body }) => body.toString())).size, 12);
  const { batches } = await client.batches(`?label.sluice-bench=${report.label}`);
  assert.deepEqual(batches.map(({ stats }) => stats.total).sort(), [2, 5, 5]);
});

test('what fails is counted, shown to people, kept, and is exit code 4', async () => {
  receiver.at('/refuses', { status: 410 });
  const { code, out } = await ran(`--target ${receiver.url}/refuses --tasks 3`);
  assert.equal(code, 4);
  assert.match(out, /^tasks +0 completed, 3 failed$/m);
  const { batches } = await client.batches('?status=failed');
  assert.deepEqual(
    batches.map(({ stats }) => stats.failed),
    [3],
  );
});

test('where the time is up, what has not ended is cancelled and said', async () => {
  receiver.at('/silent', { hold: true });
  const later = ran(`--target ${receiver.url}/silent --tasks 4 --wait 2s --json`);
  const { code, out } = await later;
  assert.equal(code, 4);
  const report = reportOf(out);
  assert.deepEqual([report.created, report.completed, report.unfinished, report.tasks_per_s], [4, 0, 4, null]);
  receiver.release('/silent', false);
});

test('an interruption cancels what has not begun', async () => {
  receiver.at('/held', { hold: true });
  // The first batch goes out at once, the second in ten seconds.
  const running = begin(['bench', '--target', `${receiver.url}/held`, '--tasks', '4', '--batch-tasks', '2', '--rate', '0.2'], env);
  await receiver.heard('/held', 2);
  running.child.kill('SIGINT');
  const { code, err } = await running.ended;
  assert.equal(code, 130, err);
  assert.match(err, /^Interrupted; what had not ended was cancelled\.$/m);
  assert.equal((await receiver.heard('/held', 2)).length, 2);
  receiver.release('/held', false);
});

test('where the service asks for patience it gets it, which is said and not in the time of a create', async () => {
  // In front of the engine, whose own limits are minutes.
  let refusals = 0;
  const front = createServer((request, response) => {
    const first = request.method === 'POST' && refusals === 0;
    if (first) {
      refusals += 1;
      request.resume();
      response.writeHead(429, { 'retry-after': '1' }).end('{"error":{"code":"rate_limited","message":"Later."}}');
      return;
    }
    const { method, headers } = request;
    const on = httpRequest(`${engine.url}${request.url}`, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    request.pipe(on);
  });
  await new Promise<void>((listening) => front.listen(0, '127.0.0.1', listening));
  after(() => front.close());
  const url = `http://127.0.0.1:${(front.address() as AddressInfo).port}`;
  const args = `bench --target ${receiver.url}/limited --tasks 5 --batch-tasks 5 --json`.split(' ');
  const { code, out, err } = await sluice(args, { ...env, SLUICE_URL: url });
  assert.equal(code, 0, err);
  const report = reportOf(out);
  assert.deepEqual([report.completed, report.batches, report.create.limited, refusals], [5, 1, 1, 1]);
});

test('without a target, or with one that makes no sense, nothing happens', async () => {
  for (const args of [
    '--tasks 1',
    '--target nonsense',
    '--listen 9000',
    '--target http://a.example --tasks 2000000',
    '--listen 127.0.0.1:0 --wait 2d',
  ]) {
    const { code, err } = await ran(args);
    assert.equal(code, 2, `${args}: ${err}`);
  }
  const batches_too_large = await ran(`--target ${receiver.url} --batch-tasks 10000 --payload-bytes 60000`);
  assert.equal(batches_too_large.code, 2);
});

test('a receiver that cannot listen, a token that is wrong, a service that is away', async () => {
  const taken = await ran(`--listen ${new URL(receiver.url).host}`);
  assert.deepEqual([taken.code, /Cannot listen on/.test(taken.err)], [1, true]);
  const stranger = await sluice(['bench', '--listen', '127.0.0.1:0', '--json'], { ...env, SLUICE_TOKEN: 'nobody' });
  assert.deepEqual([stranger.code, (JSON.parse(stranger.err) as { error: { code: string } }).error.code], [1, 'unauthorized']);
});
