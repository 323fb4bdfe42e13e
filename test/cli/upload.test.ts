// `sluice batch create -f`: whatever happens on the way, the batch has each line of the file, once, byte for byte.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { Batch } from '../../src/schema/types.gen.ts';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis } from '../helpers/redis.ts';
import { begin, freshDir, sluice } from './sluice.ts';

const { path } = await startRedis();
const receiver = await startReceiver();
const engine = await startEngine({ redis_url: `unix://${path}` });
const client = api(engine, TOKENS.acme);
const dir = freshDir();

const env = (url = engine.url): Record<string, string> => ({ SLUICE_URL: url, SLUICE_TOKEN: TOKENS.acme });

function taskFile(name: string, count: number, line = (n: number) => `{"target":"${receiver.url}/${name}","payload":{"n":${n}}}`): string {
  const file = join(dir, `${name}.ndjson`);
  writeFileSync(file, `${Array.from({ length: count }, (_, n) => line(n)).join('\n')}\n`);
  return file;
}

/** The numbers that the tasks of a batch carry, in the order of the list. */
async function numbersOf(id: string): Promise<number[]> {
  return (await client.allTasks(id)).map(({ payload }) => (payload as { n: number }).n);
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

/** A way to the engine on which the answer to the n-th creating request is `held` for ever, its request having arrived. */
async function wayThatHolds(nth: number): Promise<{ url: string; held: Promise<void>; keys: string[] }> {
  let count = 0;
  const keys: string[] = [];
  let tell = (): void => {};
  const held = new Promise<void>((done) => {
    tell = done;
  });
  const server = http.createServer((request, response) => {
    const { method = '', url = '', headers } = request;
    const forward = http.request(`${engine.url}${url}`, { method, headers }, (answer) => {
      if (method === 'POST') {
        keys.push(String(headers['idempotency-key']));
        if (++count === nth) return void answer.resume().once('end', tell);
      }
      response.writeHead(answer.statusCode ?? 0, answer.headers);
      answer.pipe(response);
    });
    request.pipe(forward);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  after(() => server.close().closeAllConnections());
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, held, keys };
}

test('a file is sent in pieces into one batch, in its order, which then runs to its end', async () => {
  const file = taskFile('pieces', 3_000);
  const { code, out, err } = await sluice(
    ['batch', 'create', '-f', file, '--piece-bytes', '20000', '--label', 'job=a', '--description', 'In pieces', '--json'],
    env(),
  );
  assert.equal(code, 0, err);
  const batch = JSON.parse(out) as Batch;
  assert.deepEqual([batch.labels, batch.description], [{ job: 'a' }, 'In pieces']);
  assert.deepEqual(await numbersOf(batch.id), upTo(3_000));
  const ended = await client.ended(batch.id, 'completed');
  assert.equal(ended.stats.completed, 3_000);
  assert.equal(existsSync(`${file}.sluice-upload`), false);
});

test('the bytes of a payload are not touched', async () => {
  const payload = '{"id":12345678901234567890,"price":1.10,"text":"\\u00e9"}';
  const file = taskFile('bytes', 1, () => `\n{"target":"${receiver.url}/bytes","payload":${payload}}\r\n`);
  const { code, err } = await sluice(['batch', 'create', '-f', file], env());
  assert.equal(code, 0, err);
  const [call] = await receiver.heard('/bytes', 1);
  assert.equal(call?.body.toString(), payload);
});

test('standard input will do', async () => {
  const stdin = `{"target":"${receiver.url}/stdin","payload":{"n":0}}\n{"target":"${receiver.url}/stdin","payload":{"n":1}}`;
  const { code, out, err } = await sluice(['batch', 'create', '-f', '-', '--watch'], env(), { stdin });
  assert.equal(code, 0, err);
  assert.match(out, /^(batch_\w+)\n\1 completed: 2: 0 pending, 2 completed, 0 failed\n$/);
});

test('an upload that is killed after a piece arrived, and before it knew, goes on with nothing twice', async () => {
  const file = taskFile('killed', 2_000);
  for (const nth of [1, 4]) {
    const way = await wayThatHolds(nth);
    const args = ['batch', 'create', '-f', file, '--piece-bytes', '15000', '--json'];
    const first = begin(args, env(way.url));
    await way.held;
    first.child.kill('SIGKILL');
    await first.ended;
    assert.ok(existsSync(`${file}.sluice-upload`));
    const second = await sluice(args, env(way.url));
    assert.equal(second.code, 0, second.err);
    assert.equal(way.keys[nth], way.keys[nth - 1], 'the same piece, under the same key');
    const batch = JSON.parse(second.out) as Batch;
    assert.deepEqual(await numbersOf(batch.id), upTo(2_000));
    assert.equal((await client.ended(batch.id, 'completed')).stats.total, 2_000);
  }
});

test('an interrupt says how to go on, and the batch waits for it', async () => {
  const file = taskFile('interrupted', 1_000);
  const way = await wayThatHolds(3);
  const args = ['batch', 'create', '-f', file, '--piece-bytes', '10000'];
  const first = begin(args, env(way.url));
  await way.held;
  first.child.kill('SIGINT');
  const { code, err } = await first.ended;
  assert.deepEqual([code, /Run the same command again to go on/.test(err)], [130, true], err);
  const { batch_id } = JSON.parse(readFileSync(`${file}.sluice-upload`, 'utf8')) as { batch_id: string };
  const second = await sluice(args, env(way.url));
  assert.deepEqual([second.code, second.out], [0, `${batch_id}\n`], second.err);
  assert.deepEqual(await numbersOf(batch_id), upTo(1_000));
});

test('a file that changed where it was sent already is refused, and --restart begins anew', async () => {
  const file = taskFile('changed', 1_000);
  const way = await wayThatHolds(3);
  const args = ['batch', 'create', '-f', file, '--piece-bytes', '10000'];
  const first = begin(args, env(way.url));
  await way.held;
  first.child.kill('SIGKILL');
  await first.ended;
  writeFileSync(file, readFileSync(file, 'utf8').replace('"n":1}', '"n":7}'));
  const second = await sluice(args, env(way.url));
  assert.deepEqual([second.code, second.out], [1, '']);
  assert.match(second.err, /have changed.*--restart/);
  const third = await sluice([...args, '--restart'], env());
  assert.equal(third.code, 0, third.err);
  assert.equal((await numbersOf(third.out.trim())).length, 1_000);
});

test('a line that is wrong is named, before anything is made of it', async () => {
  const broken = taskFile('broken', 3, (n) => (n === 1 ? '{"target":' : `{"target":"${receiver.url}/x"}`));
  const first = await sluice(['batch', 'create', '-f', broken], env());
  assert.deepEqual([first.code, first.out], [1, '']);
  assert.match(first.err, /^Line 2 is not JSON/);
  const strange = taskFile('strange', 5, (n) => (n === 3 ? '\n{"targte":"x"}' : `{"target":"${receiver.url}/x"}`));
  const second = await sluice(['batch', 'create', '-f', strange], env());
  assert.deepEqual([second.code, second.out], [1, '']);
  assert.match(second.err, /line 5: .*No batch was made\./s);
  assert.equal(existsSync(`${strange}.sluice-upload`), false);
  const refused = taskFile('refused', 4, (n) => (n === 2 ? '\n{"target":"http://u:p@x"}' : `{"target":"${receiver.url}/x"}`));
  assert.match((await sluice(['batch', 'create', '-f', refused], env())).err, /line 4: /);
});

test('with --skip-invalid the others are taken', async () => {
  const file = taskFile('skipped', 500, (n) =>
    n % 100 === 7 ? '{"target":"nowhere"}' : `{"target":"${receiver.url}/s","payload":{"n":${n}}}`,
  );
  const { code, out, err } = await sluice(['batch', 'create', '-f', file, '--skip-invalid', '--piece-bytes', '5000'], env());
  assert.equal(code, 4, err);
  assert.deepEqual(
    err.match(/^Line \d+/gm),
    [8, 108, 208, 308, 408].map((n) => `Line ${n}`),
  );
  assert.match(err, /495 tasks .*; 5 lines were not taken/);
  assert.equal((await client.batch(out.trim())).stats.total, 495);
});

test('a file without a task makes no batch', async () => {
  const file = join(dir, 'empty.ndjson');
  writeFileSync(file, '\n\n');
  const { code, err } = await sluice(['batch', 'create', '-f', file], env());
  assert.deepEqual([code, err], [1, 'There is no task in the file.\n']);
  assert.equal((await sluice(['batch', 'create', '-f', join(dir, 'none')], env())).code, 1);
});
