// Lua scripts from their header to their reply, on one server and on a Cluster.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { describe, test } from 'node:test';
import { setImmediate as immediate } from 'node:timers/promises';
import { type Compiled, compileTree, render } from '../../scripts/gen-lua.ts';
import { lintTree } from '../../scripts/lint-lua.ts';
import { createLog } from '../../src/base/log.ts';
import { parseRedisUrl } from '../../src/store/address.ts';
import { openConnection } from '../../src/store/client.ts';
import { execPipeline, lineOf, preload, type RedisClient, type RestValue, type Script, script, textOf } from '../../src/store/script.ts';
import { scripts as generated } from '../../src/store/scripts.gen.ts';
import { startCluster } from '../helpers/cluster.ts';
import { treeOf } from '../helpers/lua-tree.ts';
import { startRedis } from '../helpers/redis.ts';

const ADD = `-- Adds to a counter and keeps what the caller said.
--
-- @key   count   string  {t}:count   the counter
-- @arg   by      int     how much
-- @arg   note    bytes   kept as it is
-- @arg   now_ms  now
-- @reply [number, string,
--   string | null]   the sum, the note, the kind's name
-- @include lib/num

local sum = redis.call('INCRBY', count, clamp(by, 0, 10)) -- a remark
redis.call('HSET', count .. ':doc', 'note', note, 'at_ms', string.format('%.0f', now_ms))

-- @include lib/kind/*
return { sum, note, kinds.one }
`;

const TREE = {
  'lib/num.lua':
    '-- Keeps n within lo and hi.\nlocal function clamp(n, lo, hi)\n  if n < lo then return lo end\n  return math.min(n, hi)\nend\n',
  'lib/kind/a.lua': '-- @include lib/num\nlocal kinds = {}\n',
  'lib/kind/b.lua': "-- The only kind.\nkinds.one = 'one'\n",
  'count/add.lua': ADD,
  'count/fail.lua': [
    '-- Fails in the way it is told to.',
    '-- @key   key   string  {t}:k',
    '-- @arg   how   string',
    '-- @arg   given json',
    '-- @reply null',
    '-- @include lib/deep',
    "if how == 'reply' then return redis.error_reply('REFUSED as told') end",
    "if how == 'call' then redis.call('LPUSH', key, 'x') end",
    "if how == 'deep' then deep(nil) end",
    'return given',
  ].join('\n'),
  'lib/deep.lua': '-- Fails below.\n\nlocal function deep(t)\n  return t.x\nend\n',
  'list/echo.lua': [
    '-- Says back the list that it got, and its other arguments.',
    '-- @key   key   string  {t}:k',
    '-- @arg   first string',
    '-- @rest  items   any number of them',
    '-- @arg   last  int',
    "-- @reply [string, number, number, ...('x' | string)[]]  first, last, count of items, items",
    'local reply = { first, last, #items }',
    'for i, item in ipairs(items) do reply[i + 3] = item end',
    'return reply',
  ].join('\n'),
  'tell/one.lua':
    "-- Tells whoever listens.\n-- @key key any {t}:k\n-- @reply string\nredis.call('SPUBLISH', key, 'told')\nreturn 'answered'",
  'drain/one.lua': "-- Deletes a key.\n-- @flags allow-oom\n-- @key key any {t}:k\n-- @reply number\nreturn redis.call('DEL', key)",
};

/** Writes a tree of Lua files, compiles it, and hands out what was found. */

const compiled = compileTree(treeOf(TREE));

function find(name: string): Compiled {
  const one = compiled.find((candidate) => candidate.name === name);
  assert.ok(one, name);
  return one;
}

type Add = Script<{ count: string }, { by: number; note: Buffer; now_ms?: number | '' | undefined }, [number, string, string | null]>;
const add: Add = script(find('count/add'));
const fail: Script<{ key: string }, { how: string; given: unknown }, null> = script(find('count/fail'));
type Echo = Script<{ key: string }, { first: string; items: readonly RestValue[]; last: number }, [string, number, number, ...string[]]>;
const echo: Echo = script(find('list/echo'));
const drain: Script<{ key: string }, Record<never, never>, number> = script(find('drain/one'));

const tell: Script<{ key: string }, Record<never, never>, string> = script(find('tell/one'));

const NOTE = Buffer.from([0, 255, 254, 10, 13, 0]);

const { redis, path } = await startRedis();
const cluster = await startCluster({ node_timeout_ms: 1000 });

const flushScripts = async (client: RedisClient): Promise<void> => {
  const nodes = 'nodes' in client ? client.nodes('master') : [client];
  await Promise.all(nodes.map((node) => node.script('FLUSH')));
};

for (const [where, client] of [
  ['one server', redis],
  ['a Cluster', cluster.connect()],
] as const) {
  describe(`on ${where}`, () => {
    test('a script that the server does not know is sent and runs once', async () => {
      await flushScripts(client);
      const count = `{a-${where}}:count`;
      assert.deepEqual(await add.call(client, { count }, { by: 3, note: Buffer.from('n') }), [3, 'n', 'one']);
      await flushScripts(client);
      assert.deepEqual(await add.call(client, { count }, { by: 99, note: Buffer.from('n') }), [13, 'n', 'one']);
    });

    test('bytes go in and come out unchanged, also when the script had to be sent', async () => {
      const count = `{b-${where}}:count`;
      for (const before of [() => flushScripts(client), () => undefined]) {
        await before();
        const [, note, kind] = await add.callBuffer(client, { count }, { by: 1, note: NOTE });
        assert.deepEqual(note, NOTE);
        assert.deepEqual(kind, Buffer.from('one'));
      }
      assert.deepEqual(await client.hgetBuffer(`${count}:doc`, 'note'), NOTE);
    });

    test('without a given time the script reads the clock of its server', async () => {
      const count = `{c-${where}}:count`;
      const before_ms = Date.now();
      await add.call(client, { count }, { by: 1, note: NOTE });
      const at_ms = Number(await client.hget(`${count}:doc`, 'at_ms'));
      assert.ok(at_ms >= before_ms - 1 && at_ms <= Date.now() + 1, `${at_ms}`);
      await add.call(client, { count }, { by: 1, note: NOTE, now_ms: 1_700_000_000_123 });
      assert.equal(await client.hget(`${count}:doc`, 'at_ms'), '1700000000123');
    });

    test('a list of any length is one table in the script', async () => {
      const key = `{d-${where}}:k`;
      assert.deepEqual(await echo.call(client, { key }, { first: 'f', items: [], last: 7 }), ['f', 7, 0]);
      const items = Array.from({ length: 20_000 }, (_, i) => i);
      const reply = await echo.call(client, { key }, { first: 'f', items, last: 7 });
      assert.deepEqual(reply, ['f', 7, items.length, ...items.map(String)]);
    });

    test('a pipeline whose scripts are unknown answers each item in its place', async () => {
      await flushScripts(client);
      const count = `{e-${where}}:count`;
      const key = `{e-${where}}:k`;
      const pipeline = client.pipeline();
      add.queue(pipeline, { count }, { by: 1, note: NOTE });
      pipeline.set(key, 'plain');
      echo.queue(pipeline, { key }, { first: 'a', items: ['b'], last: 1 });
      add.queueBuffer(pipeline, { count }, { by: 2, note: NOTE });
      add.queue(pipeline, { count }, { by: 3, note: Buffer.from('c') });
      echo.queueBuffer(pipeline, { key }, { first: 'a', items: [NOTE], last: 1 });
      const replies = await execPipeline(client, pipeline);
      assert.deepEqual(
        replies.map(([error]) => error),
        Array(6).fill(null),
      );
      assert.equal(replies[1]?.[1], 'OK');
      assert.deepEqual(replies[2]?.[1], ['a', 1, 1, 'b']);
      assert.deepEqual(replies[3]?.[1], [3, NOTE, Buffer.from('one')]);
      assert.deepEqual(replies[4]?.[1], [6, 'c', 'one']);
      assert.deepEqual(replies[5]?.[1], [Buffer.from('a'), 1, 1, NOTE]);
    });

    test('a pipeline reruns only what was unknown', async () => {
      await flushScripts(client);
      const count = `{f-${where}}:count`;
      const key = `{f-${where}}:k`;
      await add.call(client, { count }, { by: 1, note: NOTE });
      const pipeline = client.pipeline();
      add.queue(pipeline, { count }, { by: 1, note: Buffer.from('x') });
      echo.queue(pipeline, { key }, { first: 'a', items: [], last: 1 });
      const replies = await execPipeline(client, pipeline);
      assert.deepEqual(replies, [
        [null, [2, 'x', 'one'], false],
        [null, ['a', 1, 0], true],
      ]);
    });

    test('a script that tells before it is answered is sent, runs once and fails as any other', async () => {
      const [count, key] = [`{h-${where}}:count`, `{h-${where}}:k`];
      await flushScripts(client);
      assert.deepEqual(await add.callToldFirst(client, { count }, { by: 3, note: Buffer.from('n') }), [3, 'n', 'one']);
      assert.deepEqual(await add.callToldFirst(client, { count }, { by: 4, note: Buffer.from('n') }), [7, 'n', 'one']);
      await assert.rejects(fail.callToldFirst(client, { key }, { how: 'deep', given: null }), /lua\/lib\/deep\.lua:4: attempt to index/);
    });

    test('an error names the file and the line, alone and in a pipeline', async () => {
      const key = `{g-${where}}:k`;
      await client.set(key, 'a string');
      await assert.rejects(fail.call(client, { key }, { how: 'deep', given: null }), (error: Error) => {
        assert.match(error.message, /lua\/lib\/deep\.lua:4: attempt to index/);
        assert.match(error.stack ?? '', /lua\/lib\/deep\.lua:4: attempt to index/);
        assert.doesNotMatch(error.message, /user_script|[0-9a-f]{40}/);
        return true;
      });
      await assert.rejects(fail.call(client, { key }, { how: 'call', given: null }), /WRONGTYPE.*lua\/count\/fail\.lua:8/);
      await assert.rejects(fail.call(client, { key }, { how: 'reply', given: null }), /^ReplyError: REFUSED as told$/);
      const pipeline = client.pipeline();
      fail.queue(pipeline, { key }, { how: 'deep', given: null });
      const [[error] = []] = await execPipeline(client, pipeline);
      assert.match(error?.message ?? '', /lua\/lib\/deep\.lua:4/);
    });

    test('a text that is sent ahead is known to every server', async () => {
      await flushScripts(client);
      await preload(client, compiled);
      const nodes = 'nodes' in client ? client.nodes('master') : [client];
      for (const node of nodes) assert.deepEqual(await node.script('EXISTS', add.sha, echo.sha), [1, 1]);
    });
  });
}

test('whom a script tells hears of it before its caller is answered', async (t) => {
  const listener = redis.duplicate();
  t.after(() => listener.disconnect());
  await listener.ssubscribe('{i}:k');
  const heard: string[] = [];
  listener.on('smessage', () => heard.push('told'));
  await preload(redis, compiled);
  const caller = await openConnection(parseRedisUrl(`unix://${path}`), { role: 'test', log: createLog({ level: 'silent' }) });
  t.after(() => caller.disconnect());
  for (const how of ['call', 'callToldFirst', 'call', 'callToldFirst'] as const) {
    const message = once(listener, 'smessage');
    await immediate();
    await immediate(); // The loop has looked at the sockets once more: none of them is ready from before.
    heard.length = 0;
    const answer = tell[how](caller, { key: '{i}:k' }, {}).then((reply) => heard.push(reply));
    // Redis has written both when it answers somebody who came later. This process sees nothing until then, so it finds them in the order in which they were written.
    execFileSync('redis-cli', ['-s', path, 'ping'], { timeout: 10_000 });
    await Promise.all([message, answer]);
    // A plain call for comparison: where a Redis tells first by itself, `callToldFirst` has nothing left to do, and may go.
    assert.deepEqual(heard, how === 'call' ? ['answered', 'told'] : ['told', 'answered'], how);
  }
});

test('on a Cluster a script keeps working when its master is lost', async () => {
  const client = cluster.connect({ retryDelayOnClusterDown: 50, retryDelayOnFailover: 50 });
  const count = '{failover}:count';
  await add.call(client, { count }, { by: 1, note: NOTE });
  const master = await cluster.masterOf(count);
  await master.redis.wait(1, 0);
  await master.kill();
  await cluster.ready();
  const pipeline = client.pipeline();
  add.queue(pipeline, { count }, { by: 1, note: Buffer.from('p') });
  const [sum] = await add.call(client, { count }, { by: 1, note: NOTE });
  assert.equal(sum, 2);
  const replies = await execPipeline(client, pipeline);
  assert.deepEqual(replies, [[null, [3, 'p', 'one'], false]]);
});

test('a missing argument is a bug of the caller and never an empty string', async () => {
  const args = { by: Number.NaN, note: NOTE };
  await assert.rejects(add.call(redis, { count: '{h}:count' }, args), /count\/add: by is NaN/);
  await assert.rejects(add.call(redis, {} as { count: string }, { by: 1, note: NOTE }), /count\/add: count is undefined/);
});

test('at maxmemory a script that drains runs and one that admits is refused', async () => {
  const full = await startRedis({ args: ['--maxmemory', '1', '--maxmemory-policy', 'noeviction'] });
  await assert.rejects(add.call(full.redis, { count: 'c' }, { by: 1, note: NOTE }), /OOM/);
  assert.equal(await drain.call(full.redis, { key: 'k' }, {}), 0);
});

test('every line of a compiled script knows where it comes from', () => {
  const one = find('count/add');
  const lines = textOf(one).split('\n');
  const at = (text: string) => lineOf(one, lines.findIndex((line) => line.includes(text)) + 1);
  assert.equal(lines[0], '#!lua');
  assert.equal(textOf(find('drain/one')).split('\n')[0], '#!lua flags=allow-oom');
  assert.equal(at('local by ='), 'lua/count/add.lua:4');
  assert.equal(at('return math.min'), 'lua/lib/num.lua:4');
  assert.equal(at("'INCRBY'"), 'lua/count/add.lua:11');
  assert.equal(at('kinds.one ='), 'lua/lib/kind/b.lua:2');
  assert.equal(at('return { sum'), 'lua/count/add.lua:15');
  assert.equal(lines.filter((line) => line.includes('function clamp')).length, 1);
  assert.equal(lines.filter((line) => line.startsWith('--')).length, 0);
});

test('the generated module carries the types of the header', () => {
  const text = render(compiled);
  assert.match(
    text,
    /countAdd = script<\{ count: string }, \{ by: number; note: Buffer; now_ms\?: number \| '' \| undefined }, \[number, string, string \| null]>/,
  );
  assert.match(text, /listEcho = script<[^>]*items: readonly RestValue\[] }, \[string, number, number, \.\.\.\('x' \| string\)\[]]>/);
  assert.match(text, /drainOne = script<\{ key: string }, Record<never, never>, number>/);
  assert.match(text, /export const scripts = \{ countAdd, countFail, drainOne, listEcho, tellOne };/);
});

test('every script of this project is accepted by Redis', async () => {
  for (const one of Object.values(generated)) assert.equal(await redis.script('LOAD', textOf(one)), one.sha);
});

test('the lint finds nothing in scripts that keep the rules', () => {
  assert.deepEqual(lintTree(treeOf(TREE)), []);
});
