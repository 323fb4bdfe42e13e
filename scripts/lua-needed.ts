// Leaves out what a script declares and does not use, and puts what it uses only after it may have returned behind that: each call of a script
// makes all functions anew that it comes to (docs/decisions/0053-a-task-that-comes-alone.md, 0074-what-a-call-makes.md).
import luaparse from 'luaparse';

type Statement = luaparse.Statement;

/** Names that a script does not declare. */
export const GLOBALS = new Set(
  'redis cjson cmsgpack struct bit KEYS ARGV tonumber tostring math string table ipairs pairs next type select unpack error pcall assert'.split(
    ' ',
  ),
);

/** A local function, or locals of plain values: it may stand anywhere before its first use. */
interface Declared {
  at: number;
  uses: Set<string>;
}

/**
 * The lines of a script in the order in which they are sent. A script has stretches, each ending with an `if` that may return; a declaration that the
 * stretch it stands in does not use goes to the beginning of the first one that does, or is left out. As it is where it is no Lua: who lints says so.
 * `fail` throws: where a name is declared twice, or is that of a global, since what moves might mean the other one; and where a line holds two statements.
 */
export function needed<L extends { text: string }>(lines: readonly L[], fail: (line: L, what: string) => never): L[] {
  let chunk: luaparse.Chunk;
  try {
    chunk = luaparse.parse(lines.map(({ text }) => text).join('\n'), { luaVersion: '5.1', locations: true });
  } catch {
    return [...lines];
  }
  const { body } = chunk;
  const linesOf = linesByStatement(body, lines, fail);
  const declared = declarations(body, (at, what) => fail(linesOf[at]?.[0] as L, what));
  const moving = new Set([...declared.values()].map(({ at }) => at));
  const sent = new Set<number>();
  for (const stretch of stretches(body)) {
    const wanted = new Set(stretch.filter((at) => !moving.has(at)));
    const want = (by: number, uses: Iterable<string>): void => {
      for (const name of uses) {
        const one = declared.get(name);
        // By a name that is declared later something of its own is meant.
        if (one === undefined || one.at >= by || wanted.has(one.at) || sent.has(one.at)) continue;
        wanted.add(one.at);
        want(one.at, one.uses);
      }
    };
    for (const at of stretch) if (!moving.has(at)) want(at, namesIn(body[at] as Statement));
    for (const at of [...wanted].sort((a, b) => a - b)) sent.add(at);
  }
  return [...sent].flatMap((at) => linesOf[at] ?? []);
}

/** What may move, by its names. */
function declarations(body: readonly Statement[], fail: (at: number, what: string) => never): Map<string, Declared> {
  const declared = new Map<string, Declared>();
  const known = new Set<string>();
  for (const [at, statement] of body.entries()) {
    const moving = namesOf(statement);
    const names = moving ?? (statement.type === 'LocalStatement' ? statement.variables.map(({ name }) => name) : []);
    for (const name of names) {
      if (known.has(name)) fail(at, `'${name}' is declared twice`);
      if (GLOBALS.has(name)) fail(at, `'${name}' is the name of a global`);
      known.add(name);
    }
    const one = { at, uses: namesIn(statement) };
    for (const name of moving ?? []) declared.set(name, one);
  }
  return declared;
}

/** Places of statements, up to and with each `if` that ends with a return, and the rest. */
function stretches(body: readonly Statement[]): number[][] {
  const found: number[][] = [[]];
  for (const [at, statement] of body.entries()) {
    found.at(-1)?.push(at);
    if (statement.type === 'IfStatement' && statement.clauses.some(({ body }) => body.at(-1)?.type === 'ReturnStatement')) found.push([]);
  }
  return found;
}

/** The lines of each statement; those before the first belong to it. */
function linesByStatement<L extends { text: string }>(
  body: readonly Statement[],
  lines: readonly L[],
  fail: (line: L, what: string) => never,
): L[][] {
  let from = 0;
  return body.map(({ loc }) => {
    const { start, end } = loc as NonNullable<Statement['loc']>;
    if (start.line - 1 < from) fail(lines[start.line - 1] as L, 'two statements on a line');
    const own = lines.slice(from, end.line);
    from = end.line;
    return own;
  });
}

/** What a statement declares, where it does nothing else; else null. */
function namesOf(statement: Statement): string[] | null {
  if (statement.type === 'FunctionDeclaration') {
    const { identifier, isLocal } = statement;
    return isLocal && identifier?.type === 'Identifier' ? [identifier.name] : null;
  }
  if (statement.type !== 'LocalStatement') return null;
  return statement.init.every(isPlain) ? statement.variables.map(({ name }) => name) : null;
}

function isPlain(value: luaparse.Expression): boolean {
  if (value.type === 'UnaryExpression') return isPlain(value.argument);
  if (value.type !== 'TableConstructorExpression') return /Literal$/.test(value.type);
  return value.fields.every((field) => field.type !== 'TableKey' && isPlain(field.value));
}

/** Every name in there but those of fields; too many of them only leave too much in. */
function namesIn(statement: Statement): Set<string> {
  const names = new Set<string>();
  const visit = (node: unknown): void => {
    if (Array.isArray(node)) for (const one of node) visit(one);
    else if (typeof node === 'object' && node !== null) {
      const { type, name } = node as { type?: string; name?: string };
      if (type === 'Identifier' && name !== undefined) names.add(name);
      for (const [key, value] of Object.entries(node)) {
        const field = (type === 'MemberExpression' && key === 'identifier') || (type === 'TableKeyString' && key === 'key');
        if (key !== 'loc' && !field) visit(value);
      }
    }
  };
  visit(statement);
  return names;
}
