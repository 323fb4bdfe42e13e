// A call behind another, in one write: whatever becomes of the first, the second and all that come later get their own answers.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { type Command, Redis } from 'ioredis';
import { createLog } from '../../src/base/log.ts';
import { parseRedisUrl } from '../../src/store/address.ts';
import { openConnection } from '../../src/store/client.ts';
import { preload, type Script } from '../../src/store/script.ts';
import { startRedis, until } from '../helpers/redis.ts';
import { startRelay } from '../helpers/relay.ts';
import { plainScript } from '../helpers/script.ts';

type Say = Script<{ n: string }, { what: string; bytes: string }, unknown>;

/** Counts, and says what it was given. */
const say: Say = plainScript('say', ['n'], ['what', 'bytes'], "return {redis.call('INCR', KEYS[1]), ARGV[1], {false, #ARGV[2]}}");
/** Of which ioredis would make text, were it not a Buffer. */
const BYTES = Buffer.from([0xff, 0, 0x0d, 0x0a, 0xc3]) as unknown as string;

const ask = (client: Redis, what: string): Promise<unknown> => say.callToldFirst(client, { n: 'n' }, { what, bytes: BYTES });
const answer = (count: number, what: string): unknown => [count, what, [null, 5]];

async function open(url: string): Promise<Redis> {
  const client = await openConnection(parseRedisUrl(url), { role: 'test', log: createLog({ level: 'silent' }) });
  after(() => client.disconnect());
  return client as Redis;
}

async function openByRelay() {
  const { redis, path } = await startRedis();
  await preload(redis, [say]);
  const relay = await startRelay(path);
  after(() => relay.close());
  return { redis, relay, client: await open(`redis://127.0.0.1:${relay.port}`) };
}

test('both leave in one write, and texts and bytes arrive as they are', async (t) => {
  const { client } = await openByRelay();
  const write = t.mock.method(client.stream, 'write');
  assert.deepEqual(await ask(client, 'für dich \u{1f680}'), answer(1, 'für dich \u{1f680}'));
  assert.equal(write.mock.callCount(), 1);
});

test('where the first was answered when the connection broke, the second alone is sent again', async () => {
  const { redis, relay, client } = await openByRelay();
  const asked = ask(client, 'once more');
  let broken = false;
  relay.passes = (bytes) => {
    if (broken) return true;
    broken = true;
    // The answer of the first is a line.
    const read = client.stream.bytesRead;
    relay.give(bytes.subarray(0, bytes.indexOf('\n') + 1));
    void until(() => client.stream.bytesRead > read, 2_000, 'it to be read').then(() => relay.cut());
    return false;
  };
  assert.deepEqual(await asked, answer(2, 'once more'));
  assert.equal(await client.echo('another'), 'another');
  assert.equal(await redis.get('n'), '2');
});

test('both are sent again in step with what was under way around them', async () => {
  const { relay, client } = await openByRelay();
  relay.passes = () => false;
  const all = [client.echo('before'), ask(client, 'a'), client.echo('between'), ask(client, 'b'), client.echo('after')];
  await until(async () => client.stream.bytesWritten > 0 && client.stream.writableLength === 0, 2_000, 'them to be written');
  relay.passes = () => true;
  relay.cut();
  const [before, a, between, b, behind] = (await Promise.all(all)) as [string, [number], string, [number], string];
  assert.deepEqual([before, between, behind], ['before', 'between', 'after']);
  assert.deepEqual([a, b], [answer(a[0], 'a'), answer(a[0] + 1, 'b')]);
  assert.equal(b[0], a[0] + 1);
});

test('one that waits for a connection is sent when there is one', async () => {
  const { relay, client } = await openByRelay();
  relay.cut();
  await until(() => client.status !== 'ready', 2_000, 'the end to be seen');
  assert.deepEqual(await ask(client, 'waited'), answer(1, 'waited'));
  assert.equal(await client.echo('another'), 'another');
});

test('a second that may not pass leaves the first alone', async () => {
  class Refusing extends Redis {
    override sendCommand(command: Command, stream?: Parameters<Redis['sendCommand']>[1]): unknown {
      if (command.name !== 'evalsha') return super.sendCommand(command, stream);
      command.reject(new Error('not now'));
      return command.promise;
    }
  }
  const { path } = await startRedis();
  const client = new Refusing({ path });
  after(() => client.disconnect());
  await client.ping();
  await assert.rejects(ask(client, 'a'), /not now/);
  assert.equal(await client.echo('another'), 'another');
});
