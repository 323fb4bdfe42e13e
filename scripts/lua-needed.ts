// Puts what a script declares right before the first statement that uses it, and leaves out what none does: each call of a script makes all
// of its functions anew as it comes to them, so one that returns early makes none of those that it did not need
// (docs/decisions/0053-a-task-that-comes-alone.md, 0074-what-a-script-makes.md).
import luaparse from 'luaparse';

type Statement = luaparse.Statement;

interface Declared {
  names: string[];
  uses: Set<string>;
  /** Where it stands among the statements. */
  at: number;
}

/**
 * The lines with local functions, and locals of plain values, as late as they may come, in their order; those that nothing uses are left out. As
 * it is where it is no Lua: who lints says so. Throws where a name that moves is declared twice, or a line holds two statements.
 */
export function needed<L extends { text: string }>(lines: readonly L[]): L[] {
  let chunk: luaparse.Chunk;
  try {
    chunk = luaparse.parse(lines.map(({ text }) => text).join('\n'), { luaVersion: '5.1', locations: true });
  } catch {
    return [...lines];
  }
  const waiting = new Map<string, Declared>();
  const known = new Set<string>();
  const linesOf = linesByStatement(chunk.body, lines);
  const sent: L[] = [];
  /** What is declared by these names and not sent yet, and what that uses, in the order in which it stands. */
  const send = (uses: Iterable<string>): void => {
    const found = new Set<Declared>();
    const find = (names: Iterable<string>): void => {
      for (const name of names) {
        const one = waiting.get(name);
        if (one === undefined || found.has(one)) continue;
        found.add(one);
        find(one.uses);
      }
    };
    find(uses);
    for (const { names, at } of [...found].sort((a, b) => a.at - b.at)) {
      for (const name of names) waiting.delete(name);
      sent.push(...(linesOf[at] ?? []));
    }
  };
  for (const [at, statement] of chunk.body.entries()) {
    const moves = namesOf(statement);
    const names = moves ?? (statement.type === 'LocalStatement' ? statement.variables.map(({ name }) => name) : []);
    // A function that comes later than it stands would mean the other one.
    for (const name of names) if (known.has(name)) throw new Error(`'${name}' is declared twice: ${linesOf[at]?.[0]?.text}`);
    for (const name of names) known.add(name);
    const uses = namesIn(statement);
    if (moves !== null) {
      const declared = { names: moves, uses, at };
      for (const name of moves) waiting.set(name, declared);
    } else {
      send(uses);
      sent.push(...(linesOf[at] ?? []));
    }
  }
  return sent;
}

/** The lines of each statement; those before the first belong to it. */
function linesByStatement<L extends { text: string }>(body: readonly Statement[], lines: readonly L[]): L[][] {
  let from = 0;
  return body.map(({ loc }) => {
    const { start, end } = loc as NonNullable<Statement['loc']>;
    if (start.line - 1 < from) throw new Error(`two statements on a line: ${lines[start.line - 1]?.text}`);
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
