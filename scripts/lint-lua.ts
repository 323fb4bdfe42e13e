// Lints the Lua scripts on their expanded text: an undeclared name is a typo or a missing header line, and some calls
// have no place on a server that others share. Exits 1 with one line for each problem.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import luaparse from 'luaparse';
import { lineOf, textOf } from '../src/store/script.ts';
import { type Compiled, compileTree } from './gen-lua.ts';
import { GLOBALS } from './lua-needed.ts';

const COMMANDS = new Set('KEYS SCAN FLUSHALL FLUSHDB RANDOMKEY SWAPDB MOVE'.split(' '));
const MEMBERS: Record<string, string> = {
  'os.time': 'time is an @arg of type now',
  'os.clock': 'time is an @arg of type now',
  'math.random': 'chance is an @arg',
  'math.randomseed': 'chance is an @arg',
  'cjson.encode': 'it turns [] into {} and rounds long numbers; keep the text that came in',
};

type Node = luaparse.Node;

/** Every problem in the tree below `root`, as `lua/batch/create.lua:12: what`. */
export function lintTree(root: string): string[] {
  const scripts = compileTree(root);
  return [...new Set([...scripts.flatMap(lintScript), ...lintSources(root)])].sort();
}

function lintScript(script: Compiled): string[] {
  const problems: string[] = [];
  const say = (node: Node, what: string): void => {
    const at = node.loc?.start.line ?? 1;
    problems.push(`${lineOf(script, at) ?? script.name}: ${what}`);
  };
  const parsed = parse(script);
  if (typeof parsed === 'string') return [parsed];
  for (const name of (parsed as luaparse.Chunk & { globals?: luaparse.Identifier[] }).globals ?? []) {
    if (!GLOBALS.has(name.name)) say(name, `'${name.name}' is not declared`);
  }
  const uses = new Map<string, number>();
  visit(parsed, (node) => {
    if (node.type === 'Identifier') uses.set(node.name, (uses.get(node.name) ?? 0) + 1);
    if (node.type === 'MemberExpression' && node.base.type === 'Identifier') {
      const member = `${node.base.name}.${node.identifier.name}`;
      const reason = MEMBERS[member];
      if (reason !== undefined) say(node, `${member}: ${reason}`);
    }
    if (node.type === 'CallExpression') lintCall(node, say);
  });
  for (const [name] of script.args) {
    if ((uses.get(name) ?? 0) < 2) problems.push(`lua/${script.name}.lua:1: @arg ${name} is not used`);
  }
  return problems;
}

function lintCall(node: luaparse.CallExpression, say: (node: Node, what: string) => void): void {
  const callee = node.base;
  if (callee.type === 'Identifier' && callee.name === 'unpack' && node.arguments.length !== 3) {
    say(node, 'unpack takes (t, i, j) with a bounded slice: it fails at 8,000 values');
  }
  // `redis.call`, and `call` where a script has made it a local.
  const name = callee.type === 'MemberExpression' ? callee.identifier.name : callee.type === 'Identifier' ? callee.name : '';
  const first = node.arguments[0];
  if (!['call', 'pcall'].includes(name) || first?.type !== 'StringLiteral') return;
  const command = first.raw.slice(1, -1).toUpperCase();
  if (COMMANDS.has(command)) say(node, `${command} reaches over the whole server`);
}

function parse(script: Compiled): luaparse.Chunk | string {
  try {
    return luaparse.parse(textOf(script).replace(/^#!.*/, ''), { luaVersion: '5.1', scope: true, locations: true });
  } catch (error) {
    const line = (error as { line?: number }).line ?? 1;
    const what = error instanceof Error ? error.message.replace(/^\[\d+:\d+\] /, '') : String(error);
    return `${lineOf(script, line) ?? script.name}: ${what}`;
  }
}

function visit(node: unknown, see: (node: Node) => void): void {
  if (Array.isArray(node)) {
    for (const item of node) visit(item, see);
    return;
  }
  if (typeof node !== 'object' || node === null) return;
  if ('type' in node && typeof node.type === 'string') see(node as Node);
  // `globals` repeats nodes that stand elsewhere in the tree.
  for (const [key, value] of Object.entries(node)) if (key !== 'globals' && key !== 'loc') visit(value, see);
}

/** What only the sources show: positions instead of names, and library files that nothing includes. */
function lintSources(root: string): string[] {
  const files = readdirSync(join(root, 'lua'), { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.lua'));
  const texts = files.map((file) => ({ file, lines: readFileSync(join(root, 'lua', file), 'utf8').split('\n') }));
  const positions = texts.flatMap(({ file, lines }) =>
    lines.flatMap((line, i) =>
      /\b(KEYS|ARGV)\b/.test(line.replace(/--.*$/, ''))
        ? [`lua/${file}:${i + 1}: KEYS and ARGV have names: declare @key, @arg or @rest`]
        : [],
    ),
  );
  const included = new Set(texts.flatMap(({ lines }) => lines.flatMap((line) => /^\s*-- @include\s+(\S+)/.exec(line)?.[1] ?? [])));
  const unused = files.filter((file) => {
    const dir = file.slice(0, file.lastIndexOf('/'));
    return file.startsWith('lib/') && !included.has(file.slice(0, -'.lua'.length)) && !included.has(`${dir}/*`);
  });
  return [...positions, ...unused.map((file) => `lua/${file}:1: nothing includes this file`)];
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const problems = lintTree(new URL('..', import.meta.url).pathname);
  for (const problem of problems) console.error(problem);
  process.exit(problems.length > 0 ? 1 : 0);
}
