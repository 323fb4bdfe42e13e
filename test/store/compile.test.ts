// From the files of lua/ to the module with all scripts, and what is refused on the way.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { compileTree, render } from '../../scripts/gen-lua.ts';
import { lintTree } from '../../scripts/lint-lua.ts';
import { lineOf, type Script, textOf } from '../../src/store/script.ts';
import { treeOf } from '../helpers/lua-tree.ts';

const HEAD = '-- Does it.\n-- @key key string {t}:k\n-- @arg a string\n-- @reply number\n';

test('what a script includes and does not use is not sent', () => {
  const root = treeOf({
    'lib/parts.lua': [
      'local sums, unused = {}, {}',
      'local words = { redis.call("TIME")[1] }',
      'local function one() return 1 end',
      'local function two()',
      '  return one() + 1',
      'end',
      'local function three() return two() + sums[1] end',
      'local idle = 7',
    ].join('\n'),
    'count/two.lua': '-- Two.\n-- @key key string {t}:k\n-- @arg by int\n-- @reply number\n-- @include lib/parts\nreturn two()',
    'count/three.lua': '-- Three.\n-- @key key string {t}:k\n-- @reply number\n-- @include lib/parts\nreturn three()',
  });
  const [three, two] = compileTree(root).map((one) => textOf(one).split('\n').slice(1));
  const words = 'local words = { redis.call("TIME")[1] }'; // it does something
  const both = ['local function one() return 1 end', 'local function two()', '  return one() + 1', 'end'];
  assert.deepEqual(two, ['local key = KEYS[1]', 'local by = tonumber(ARGV[1])', words, ...both, 'return two()']);
  const sums = 'local sums, unused = {}, {}'; // one of them is needed
  assert.deepEqual(three, [
    'local key = KEYS[1]',
    sums,
    words,
    ...both,
    'local function three() return two() + sums[1] end',
    'return three()',
  ]);
});

test('what a script uses only after it may have returned is sent behind that', () => {
  const root = treeOf({
    'lib/parts.lua': [
      'local function never() return 0 end',
      'local seen = {}',
      'local function late() return #seen end',
      'local function early() seen[1] = 1 end',
    ].join('\n'),
    'count/one.lua': [
      '-- One.\n-- @key key string {t}:k\n-- @arg by int\n-- @reply number\n-- @include lib/parts',
      'local function here() return late() + by end',
      'early()',
      'if by == 0 then return 0 end',
      'return here()',
    ].join('\n'),
    'count/two.lua':
      '-- Two.\n-- @key key string {t}:k\n-- @reply number\n-- @include lib/parts\nif #key > 0 then early() end\nreturn late()',
  });
  const [one, two] = compileTree(root).map((script) => textOf(script).split('\n').slice(1));
  const seen = 'local seen = {}'; // both use it
  const early = 'local function early() seen[1] = 1 end';
  const late = 'local function late() return #seen end';
  const first = ['local key = KEYS[1]', 'local by = tonumber(ARGV[1])', seen, early, 'early()', 'if by == 0 then return 0 end'];
  assert.deepEqual(one, [...first, late, 'local function here() return late() + by end', 'return here()']);
  // It does not return on the way.
  assert.deepEqual(two, ['local key = KEYS[1]', seen, late, early, 'if #key > 0 then early() end', 'return late()']);
});

test('what is declared moves with its plain fields, and by no name of a field or of an inner local', () => {
  const body = ['local function size(list) local count = 0 return count + #list end', 'if size(key) == 0 then return 0 end'];
  const rest = ['local total = #key', 'local function count() return total + plain.late end', 'return count()'];
  const plain = 'local plain = { late = 1, { -1 } }';
  const held = 'local held = { [key] = 1 }'; // this one does not move
  const root = treeOf({ 'x/a.lua': [HEAD.trim(), plain, held, 'local function late() return held end', ...body, ...rest].join('\n') });
  const [sent] = compileTree(root).map((script) => textOf(script).split('\n').slice(3));
  assert.deepEqual(sent, [held, ...body, plain, ...rest]);
});

test('what a declaration that moves might take for another one is refused, with its place', () => {
  const twice = `${HEAD}local n = 1\nlocal function f() return n end\nlocal n = #a\nreturn f() + n`;
  assert.throws(() => compileTree(treeOf({ 'x/a.lua': twice })), /lua\/x\/a\.lua:7: 'n' is declared twice/);
  const global = `${HEAD}local function f() return type(a) end\nlocal type = a\nreturn f() .. type`;
  assert.throws(() => compileTree(treeOf({ 'x/a.lua': global })), /lua\/x\/a\.lua:6: 'type' is the name of a global/);
  const line = `${HEAD}local n = 1 local function f() return n end\nreturn f()`;
  assert.throws(() => compileTree(treeOf({ 'x/a.lua': line })), /lua\/x\/a\.lua:5: two statements on a line/);
});

test('what scripts share is written once, and each is put together as it was compiled', async () => {
  const root = treeOf({
    'lib/num.lua': '-- Numbers.\n\nlocal function half(n)\n  -- A remark.\n\n  return n / 2\nend\nlocal function twice(n) return n * 2 end',
    'lib/own.lua': 'local own = redis.call("TIME")[1]',
    'lib/pair.lua': 'local function one() return 1 end\nlocal function two() return 2 end',
    'x/a.lua': `${HEAD}-- @include lib/num\n-- @include lib/pair\nreturn half(#a) + twice(one() + two())`,
    // half() without what follows it, two() without what precedes it.
    'x/b.lua': `${HEAD}-- @include lib/num\n-- @include lib/own\nreturn half(#a) .. own .. '\`\${1}\\n'`,
    'x/c.lua': `${HEAD}-- @arg z string\n-- @rest more\n-- @include lib/pair\nreturn two() + #a + #z + #more`,
  });
  const scripts = compileTree(root);
  const path = join(root, 'scripts.gen.ts');
  writeFileSync(path, render(scripts, new URL('../../src/store/script.ts', import.meta.url).pathname));
  const module = (await import(path)) as { scripts: Record<string, Script<object, object, unknown>> };
  const places: Record<string, string[]> = {
    xA: ['x/a:1', 'x/a:2', 'x/a:3', 'lib/num:3', 'lib/num:6', 'lib/num:7', 'lib/num:8', 'lib/pair:1', 'lib/pair:2', 'x/a:7'],
    xB: ['x/b:1', 'x/b:2', 'x/b:3', 'lib/num:3', 'lib/num:6', 'lib/num:7', 'lib/own:1', 'x/b:7'],
    xC: ['x/c:1', 'x/c:2', 'x/c:5', 'x/c:3', 'x/c:6', 'lib/pair:2', 'x/c:8'],
  };
  for (const one of scripts) {
    const name = `x${one.name.slice(-1).toUpperCase()}`;
    const made = module.scripts[name];
    assert.ok(made);
    const text = textOf(made);
    assert.equal(text, textOf(one));
    assert.equal(made.sha, createHash('sha1').update(text).digest('hex'));
    const found = text.split('\n').map((_, i) => lineOf(made, i + 1)?.replace(/^lua\/(.*)\.lua:/, '$1:'));
    assert.deepEqual(found, places[name]);
  }
  // Neither what always precedes a function, nor what always follows it, is taken along where it is not always so.
  const shared = [...readFileSync(path, 'utf8').matchAll(/^const piece_\d+: Piece = \[("[^"]*", \d+), `([^`]*)`\];$/gm)];
  assert.deepEqual(
    shared.map(([, at, text]) => [at, text]),
    [
      ['"lua/lib/num.lua", 3', 'local function half(n)\n\n\n  return n / 2\nend'],
      ['"lua/lib/pair.lua", 2', 'local function two() return 2 end'],
    ],
  );
});

const REFUSED: [what: string, files: Record<string, string>, problem: RegExp][] = [
  ['no prose', { 'x/y.lua': '-- @reply number\nreturn 1' }, /lua\/x\/y\.lua:1: the first line must say/],
  ['no reply', { 'x/y.lua': '-- Does it.\nreturn 1' }, /lua\/x\/y\.lua:1: no @reply/],
  ['an unknown tag', { 'x/y.lua': '-- Does it.\n-- @arc a string\n-- @reply number\n' }, /lua\/x\/y\.lua:2: unknown tag @arc/],
  ['an unknown type', { 'x/y.lua': '-- Does it.\n-- @arg a text\n-- @reply number\n' }, /lua\/x\/y\.lua:2: unknown type 'text'/],
  ['an unknown flag', { 'x/y.lua': '-- Does it.\n-- @flags oom\n-- @reply number\n' }, /lua\/x\/y\.lua:2: unknown flag 'oom'/],
  [
    'a name twice',
    { 'x/y.lua': '-- Does it.\n-- @arg a int\n-- @key a hash {t}\n-- @reply number\n' },
    /lua\/x\/y\.lua:3: 'a' is declared twice/,
  ],
  ['a header line below the header', { 'x/y.lua': `${HEAD}return a\n-- @arg b int` }, /lua\/x\/y\.lua:6: a header line below/],
  ['an include of nothing', { 'x/y.lua': `${HEAD}-- @include lib/z\nreturn a` }, /lua\/x\/y\.lua:5: nothing at lua\/lib\/z/],
  ['a carriage return', { 'x/y.lua': `${HEAD}local b = a\r\nreturn b` }, /lua\/x\/y\.lua:5: lines end with a line feed alone/],
  ['long brackets', { 'x/y.lua': `${HEAD}return [[\n-- a\n]]` }, /lua\/x\/y\.lua:5: long brackets/],
];

for (const [what, files, problem] of REFUSED) {
  test(`a script with ${what} does not compile`, () => {
    assert.throws(() => compileTree(treeOf(files)), problem);
  });
}

const LINTED: [body: string, problem: string][] = [
  ['return a + b', "lua/x/y.lua:5: 'b' is not declared"],
  ['c = 1\nreturn a', "lua/x/y.lua:5: 'c' is not declared"],
  ["return redis.call('KEYS', a)", 'lua/x/y.lua:5: KEYS reaches over the whole server'],
  ["local call = redis.call\n\nreturn call('flushall', a)", 'lua/x/y.lua:7: FLUSHALL reaches over the whole server'],
  ['return ARGV[1] + a', 'lua/x/y.lua:5: KEYS and ARGV have names: declare @key, @arg or @rest'],
  ['return math.random(a)', 'lua/x/y.lua:5: math.random: chance is an @arg'],
  ['return cjson.encode(a)', 'lua/x/y.lua:5: cjson.encode: it turns [] into {} and rounds long numbers; keep the text that came in'],
  ['return unpack(a)', 'lua/x/y.lua:5: unpack takes (t, i, j) with a bounded slice: it fails at 8,000 values'],
  ['return 1', 'lua/x/y.lua:1: @arg a is not used'],
  ['return a +', "lua/x/y.lua:5: <expression> expected near '<eof>'"],
];

for (const [body, problem] of LINTED) {
  test(`the lint stops \`${body.split('\n').at(-1)}\``, () => {
    const found = lintTree(treeOf({ 'x/y.lua': HEAD + body }));
    assert.ok(found.includes(problem), found.join('\n'));
  });
}

test('a library file that nothing includes is a problem', () => {
  assert.deepEqual(lintTree(treeOf({ 'lib/z.lua': '-- Z.\nlocal z = 1' })), ['lua/lib/z.lua:1: nothing includes this file']);
});
