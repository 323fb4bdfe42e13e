// Leaves out what a script includes and does not use: each call of a script makes all of its functions anew, and those that it never
// calls were a tenth of its time (docs/decisions/0053-a-task-that-comes-alone.md).
import luaparse from 'luaparse';

type Statement = luaparse.Statement;
type Named = luaparse.FunctionDeclaration | luaparse.LocalStatement;

/** The lines without local functions, and locals of plain values, that nothing uses by name. As it is where it is no Lua: who lints says so. */
export function needed<L extends { text: string }>(lines: readonly L[]): L[] {
  let chunk: luaparse.Chunk;
  try {
    chunk = luaparse.parse(lines.map(({ text }) => text).join('\n'), { luaVersion: '5.1', locations: true });
  } catch {
    return [...lines];
  }
  const waiting = new Map<Named, string[]>();
  const used = new Set<string>();
  for (const statement of chunk.body) {
    const names = namesOf(statement);
    if (names === null) namesIn(statement, used);
    else waiting.set(statement as Named, names);
  }
  // What is used by something that is used.
  for (let before = -1; before !== waiting.size; ) {
    before = waiting.size;
    for (const [statement, names] of waiting) {
      if (!names.some((name) => used.has(name))) continue;
      namesIn(statement, used);
      waiting.delete(statement);
    }
  }
  const left_out = new Set<number>();
  for (const { loc } of waiting.keys()) {
    if (loc !== undefined) for (let at = loc.start.line; at <= loc.end.line; at++) left_out.add(at);
  }
  // Whole lines are left out, so nothing else may stand on them.
  for (const statement of chunk.body) {
    if (waiting.has(statement as Named) || statement.loc === undefined) continue;
    const { start, end } = statement.loc;
    if (left_out.has(start.line) || left_out.has(end.line)) throw new Error(`two statements on a line: ${lines[start.line - 1]?.text}`);
  }
  return lines.filter((_, i) => !left_out.has(i + 1));
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
  return value.type === 'TableConstructorExpression' ? value.fields.length === 0 : /Literal$/.test(value.type);
}

/** Every name in there; too many of them only leave too much in. */
function namesIn(statement: Statement, into: Set<string>): void {
  const visit = (node: unknown): void => {
    if (Array.isArray(node)) for (const one of node) visit(one);
    else if (typeof node === 'object' && node !== null) {
      const { type, name } = node as { type?: string; name?: string };
      if (type === 'Identifier' && name !== undefined) into.add(name);
      for (const [key, value] of Object.entries(node)) if (key !== 'loc') visit(value);
    }
  };
  visit(statement);
}
