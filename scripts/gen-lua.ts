// Turns lua/<noun>/<verb>.lua into src/store/scripts.gen.ts: the text of each script in pieces that others share, and a typed caller.
//
// A script's comment header is its contract, and this file its only reader:
//
//   -- One sentence that says what the script does.
//   -- @flags allow-oom                          drains: runs at maxmemory too. Without: refused there
//   -- @key   state  hash  {p}:b:{core}  meaning  a local `state` = KEYS[n]
//   -- @arg   cost   int   meaning               a local `cost`; types: see ARG_TYPES
//   -- @rest  items  meaning                     a local table `items`: all further arguments
//   -- @reply [number, string[]]  meaning        the TypeScript type of the raw reply
//   -- @cost  O(log n)                        for the reader only
//   -- @include lib/num                          or lib/dir/* ; anywhere in the file, once per script
//
// Comment lines and blank lines are not sent to Redis, nor what a script includes and does not use, and what it uses late is sent late
// (lua-needed.ts); pieces know where their lines come from, which keeps errors right.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { ArgType, Piece, ScriptSource } from '../src/store/script.ts';
import { needed } from './lua-needed.ts';

/** TypeScript type of an argument and how Lua reads it from its text `#`. */
const ARG_TYPES: Record<ArgType, { ts: string; lua: string }> = {
  string: { ts: 'string', lua: '#' },
  int: { ts: 'number', lua: 'tonumber(#)' },
  number: { ts: 'number', lua: 'tonumber(#)' },
  bytes: { ts: 'Buffer', lua: '#' },
  json: { ts: 'unknown', lua: 'cjson.decode(#)' },
  // Left out in production: the script then reads the clock of its own shard, so two processes whose clocks differ
  // still agree on when a lease ends. A test passes a number and moves time itself.
  now: {
    ts: "number | '' | undefined",
    lua: "tonumber(#) or (function() local t = redis.call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000) end)()",
  },
  // The same in us, for what must not be late or early by a ms.
  now_us: {
    ts: "number | '' | undefined",
    lua: "tonumber(#) or (function() local t = redis.call('TIME') return t[1] * 1000000 + t[2] end)()",
  },
};
const KEY_TYPES = ['string', 'hash', 'list', 'set', 'zset', 'stream', 'any'];
const FLAGS = ['allow-oom', 'no-writes', 'allow-stale'];
const TAGS = ['flags', 'key', 'arg', 'rest', 'reply', 'cost', 'include'];

/** Each piece is a line. */
export interface Compiled extends ScriptSource {
  /** TypeScript type of the reply. */
  readonly reply: string;
  /** The prose of the header, one entry a line. */
  readonly prose: readonly string[];
}

interface Line {
  text: string;
  file: string;
  line: number;
}

interface Header {
  flags: string[];
  keys: (Line & { name: string })[];
  args: (Line & { name: string; type: ArgType })[];
  rest: (Line & { name: string }) | null;
  reply: string;
  prose: string[];
}

/** Compiles every script below `root`/lua except lua/lib; throws with file and line on a header that is not a contract. */
export function compileTree(root: string): Compiled[] {
  const lua = join(root, 'lua');
  if (!existsSync(lua)) return [];
  const nouns = readdirSync(lua, { withFileTypes: true }).filter((entry) => entry.isDirectory() && entry.name !== 'lib');
  const names = nouns.flatMap((noun) =>
    readdirSync(join(lua, noun.name))
      .filter((file) => file.endsWith('.lua'))
      .map((file) => `${noun.name}/${file.slice(0, -'.lua'.length)}`),
  );
  return names.sort().map((name) => compile(root, name));
}

function compile(root: string, name: string): Compiled {
  const lines = readLines(root, name);
  const header = readHeader(lines);
  const body = expand(root, lines, new Set([name])).filter(({ text }) => !/^\s*(--.*)?$/.test(text));
  const flags = header.flags.length > 0 ? ` flags=${header.flags.join(',')}` : '';
  // Redis wants `#!lua` first. With it and no flags a script is refused at maxmemory, and may not reach over slots.
  const text: Line[] = [{ text: `#!lua${flags}`, file: `lua/${name}.lua`, line: 1 }, ...needed([...prologue(header), ...body], fail)];
  const pieces = text.map(({ file, line, text }): Piece => [file, line, text]);
  return {
    name,
    keys: header.keys.map((key) => key.name),
    args: header.args.map((arg) => [arg.name, arg.type] as const),
    rest: header.rest?.name ?? null,
    pieces,
    reply: header.reply,
    prose: header.prose,
  };
}

function readLines(root: string, name: string): Line[] {
  const file = `lua/${name}.lua`;
  const text = readFileSync(join(root, file), 'utf8').trimEnd();
  return text.split('\n').map((line, i) => {
    if (line.includes('\r')) fail({ text, file, line: i + 1 }, 'lines end with a line feed alone');
    // Only such a literal or comment could span lines, and lines are dropped one by one.
    if (/\[=*\[/.test(line)) fail({ text, file, line: i + 1 }, 'long brackets are not allowed here');
    return { text: line, file, line: i + 1 };
  });
}

/** The comment lines at the top of a script. */
function readHeader(lines: readonly Line[]): Header {
  const end = lines.findIndex((line) => !line.text.startsWith('--'));
  const top = end === -1 ? lines : lines.slice(0, end);
  const header: Header = { flags: [], keys: [], args: [], rest: null, reply: '', prose: [] };
  const names = new Set<string>();
  for (const [i, line] of top.entries()) {
    const [, tag, value = ''] = /^-- @(\S+)\s*(.*)$/.exec(line.text) ?? [];
    if (tag === undefined) header.prose.push(line.text.slice(2).replace(/^ /, '').trimEnd());
    else readTag(header, names, line, tag, value, top.slice(i + 1));
  }
  const late = lines.slice(top.length).find((line) => /^\s*-- @(?!include )/.test(line.text));
  if (late !== undefined) fail(late, 'a header line below the header');
  const first = lines[0] ?? { text: '', file: '', line: 1 };
  if (!/\w/.test(header.prose[0] ?? '') || /^-- @/.test(first.text)) fail(first, 'the first line must say what the script does');
  if (header.reply === '') fail(first, 'no @reply');
  return header;
}

function readTag(header: Header, names: Set<string>, line: Line, tag: string, value: string, after: readonly Line[]): void {
  if (!TAGS.includes(tag)) fail(line, `unknown tag @${tag}`);
  const [name = '', second = '', third = ''] = value.split(/\s+/);
  if (tag === 'key' || tag === 'arg' || tag === 'rest') {
    if (!/^[a-z_]\w*$/.test(name)) fail(line, `not a name: '${name}'`);
    if (names.has(name)) fail(line, `'${name}' is declared twice`);
    names.add(name);
  }
  if (tag === 'flags') {
    header.flags = value.split(/[\s,]+/).filter((flag) => flag !== '');
    for (const flag of header.flags) if (!FLAGS.includes(flag)) fail(line, `unknown flag '${flag}'`);
  } else if (tag === 'key') {
    if (!KEY_TYPES.includes(second)) fail(line, `unknown key type '${second}', not one of ${KEY_TYPES.join(' ')}`);
    if (third === '') fail(line, 'no key pattern');
    header.keys.push({ ...line, name });
  } else if (tag === 'arg') {
    if (!Object.hasOwn(ARG_TYPES, second)) fail(line, `unknown type '${second}', not one of ${Object.keys(ARG_TYPES).join(' ')}`);
    header.args.push({ ...line, name, type: second as ArgType });
  } else if (tag === 'rest') {
    if (header.rest !== null) fail(line, 'a second @rest');
    header.rest = { ...line, name };
  } else if (tag === 'reply') {
    if (header.reply !== '') fail(line, 'a second @reply');
    header.reply = leadingType([value, ...after.map((next) => next.text.replace(/^--\s*/, ''))].join(' '));
    if (header.reply === '') fail(line, 'no type after @reply');
  }
}

/** The TypeScript type that `text` begins with: up to the first blank outside brackets that no `|` or `&` joins. */
function leadingType(text: string): string {
  let depth = 0;
  let quote = '';
  for (let i = 0; i < text.length; i++) {
    const c = text[i] ?? '';
    if (quote !== '') {
      if (c === quote) quote = '';
    } else if (c === "'" || c === '"') quote = c;
    else if ('[{(<'.includes(c)) depth++;
    else if (']})>'.includes(c)) depth--;
    else if (c === ' ' && depth === 0) {
      const joined = /[|&]$/.test(text.slice(0, i).trimEnd()) || /^\s*[|&]/.test(text.slice(i));
      if (!joined) return text.slice(0, i).trim();
    }
  }
  return text.trim();
}

/** Replaces each `-- @include` by the lines it names, every file once per script. */
function expand(root: string, lines: readonly Line[], seen: Set<string>): Line[] {
  return lines.flatMap((line) => {
    const include = /^\s*-- @include\s+(\S+)/.exec(line.text)?.[1];
    if (include === undefined) return [line];
    if (!include.startsWith('lib/')) fail(line, 'only files of lua/lib can be included');
    return includedNames(root, line, include).flatMap((name) => {
      if (seen.has(name)) return [];
      seen.add(name);
      const inner = readLines(root, name);
      const tag = inner.find(({ text }) => /^\s*-- @(?!include\s)/.test(text));
      if (tag !== undefined) fail(tag, 'an included file has no header');
      return expand(root, inner, seen);
    });
  });
}

function includedNames(root: string, line: Line, include: string): string[] {
  const dir = include.endsWith('/*') ? include.slice(0, -2) : null;
  const path = join(root, 'lua', dir ?? `${include}.lua`);
  if (!existsSync(path)) fail(line, `nothing at lua/${include}`);
  if (dir === null) return [include];
  const files = readdirSync(path).filter((file) => file.endsWith('.lua'));
  return files.sort().map((file) => `${dir}/${file.slice(0, -'.lua'.length)}`);
}

/** One named local for each header line, each mapped to that line. */
function prologue(header: Header): Line[] {
  const local = (line: Line & { name: string }, value: string): Line => ({ ...line, text: `local ${line.name} = ${value}` });
  const keys = header.keys.map((key, i) => local(key, `KEYS[${i + 1}]`));
  const read = (arg: { type: ArgType }, text: string): string => ARG_TYPES[arg.type].lua.replaceAll('#', text);
  if (header.rest === null) return [...keys, ...header.args.map((arg, i) => local(arg, read(arg, `ARGV[${i + 1}]`)))];
  // The named arguments come last and are taken off the end, so the open-ended list is ARGV itself and nothing is copied.
  return [...keys, ...header.args.map((arg) => local(arg, read(arg, 'table.remove(ARGV)'))).reverse(), local(header.rest, 'ARGV')];
}

/** Joins the lines that come behind one another in their file, and wherever either of them comes. */
function joined(scripts: readonly Compiled[]): Map<Compiled, Piece[]> {
  const before = new Map<string, Set<string>>();
  const behind = new Map<string, Set<string>>();
  const note = (map: Map<string, Set<string>>, at: string, other: string): void => void map.set(at, (map.get(at) ?? new Set()).add(other));
  for (const { pieces } of scripts) {
    const ids = pieces.map(String);
    for (const [i, id] of ids.entries()) {
      note(before, id, ids[i - 1] ?? '');
      note(behind, id, ids[i + 1] ?? '');
    }
  }
  const belong = (a: Piece, b: Piece): boolean =>
    a[0] === b[0] && a[1] < b[1] && before.get(String(b))?.size === 1 && behind.get(String(a))?.size === 1;
  return new Map(
    scripts.map((one) => {
      const pieces: [file: string, line: number, text: string][] = [];
      let last: Piece | undefined;
      for (const line of one.pieces) {
        const piece = pieces.at(-1);
        if (last !== undefined && piece !== undefined && belong(last, line)) piece[2] += `${'\n'.repeat(line[1] - last[1])}${line[2]}`;
        else pieces.push([...line]);
        last = line;
      }
      return [one, pieces];
    }),
  );
}

/** The generated module; `importPath` is where it finds script.ts. */
export function render(scripts: readonly Compiled[], importPath = './script.ts'): string {
  const pieces = joined(scripts);
  const uses = new Map<string, number>();
  for (const piece of [...pieces.values()].flat()) uses.set(literalOf(piece), (uses.get(literalOf(piece)) ?? 0) + 1);
  const shared = [...uses].filter(([, times]) => times > 1).map(([literal]) => literal);
  const names = new Map(shared.map((literal, i) => [literal, `piece_${i}`]));
  const imports = ['type Piece', ...(scripts.some(({ rest }) => rest !== null) ? ['type RestValue'] : []), 'script'];
  return [
    '// Generated by scripts/gen-lua.ts from lua/. Do not edit.',
    `import { ${imports.join(', ')} } from '${importPath}';`,
    '',
    ...[...names].map(([literal, name]) => `const ${name}: Piece = ${literal};`),
    '',
    ...scripts.flatMap((one) => [
      renderOne(
        one,
        (pieces.get(one) ?? []).map(literalOf).map((literal) => names.get(literal) ?? literal),
      ),
      '',
    ]),
    '/** Every script, by its name. */',
    `export const scripts = { ${scripts.map(({ name }) => exportName(name)).join(', ')} };`,
    '',
  ].join('\n');
}

function literalOf([file, line, text]: Piece): string {
  return `[${JSON.stringify(file)}, ${line}, \`${text.replaceAll('\\', '\\\\').replaceAll('`', '\\`').replaceAll('${', '\\${')}\`]`;
}

function renderOne(one: Compiled, pieces: readonly string[]): string {
  const keys = one.keys.map((name) => `${name}: string`);
  const args = one.args.map(([name, type]) => `${name}${type === 'now' || type === 'now_us' ? '?' : ''}: ${ARG_TYPES[type].ts}`);
  if (one.rest !== null) args.push(`${one.rest}: readonly RestValue[]`);
  const shape = (fields: string[]): string => (fields.length === 0 ? 'Record<never, never>' : `{ ${fields.join('; ')} }`);
  return [
    `/** ${one.prose[0] ?? ''} See lua/${one.name}.lua. */`,
    `export const ${exportName(one.name)} = script<${shape(keys)}, ${shape(args)}, ${one.reply}>({`,
    `  name: '${one.name}',`,
    `  keys: ${JSON.stringify(one.keys)},`,
    `  args: ${JSON.stringify(one.args)},`,
    `  rest: ${JSON.stringify(one.rest)},`,
    `  pieces: [${pieces.join(', ')}],`,
    '});',
  ].join('\n');
}

/** `batch/create` → `batchCreate`. */
function exportName(name: string): string {
  return name.replaceAll(/[/_-](\w)/g, (_, c: string) => c.toUpperCase());
}

function fail(line: Line, what: string): never {
  throw new Error(`${line.file}:${line.line}: ${what}`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const root = new URL('..', import.meta.url).pathname;
  const path = join(root, 'src/store/scripts.gen.ts');
  const text = render(compileTree(root));
  // Left alone when equal, so that a build sees no change.
  if (!existsSync(path) || readFileSync(path, 'utf8') !== text) writeFileSync(path, text);
}
