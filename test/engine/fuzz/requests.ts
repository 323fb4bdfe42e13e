// Requests made from the OpenAPI document of an engine: mostly nearly right, in everything that a client decides.
import { type Dice, ODD_VALUES } from './dice.ts';
import { type Components, encoded, type Known, mutated, type Schema, valueFor } from './values.ts';

export interface Document {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Components };
}

interface Operation {
  operationId?: string;
  parameters?: { name: string; in: string; schema: Schema }[];
  requestBody?: { content: Record<string, { schema: Schema }> };
}

export interface Fuzzed {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: Buffer | null;
}

/** Ids by the names of parameters. */
export type Pool = Readonly<Record<string, readonly string[]>>;

const METHODS = ['GET', 'POST', 'PATCH', 'DELETE', 'PUT', 'HEAD', 'OPTIONS', 'TRACE', 'PROPFIND'];
const TYPES = ['application/json', 'application/x-ndjson', 'text/plain', 'application/json; charset=latin1', 'multipart/form-data', ''];

/** The operations of a document, and one request of any of them. */
export function requestMaker(document: Document, known: Known): (dice: Dice, pool: Pool, tokens: readonly string[]) => Fuzzed {
  const rows = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, operation]) => operation.operationId !== undefined)
      .map(([method, operation]) => ({ path, method: method.toUpperCase(), operation })),
  );
  const { schemas } = document.components;
  return (dice, pool, tokens) => {
    const { path, method, operation } = dice.pick(rows);
    const [type, content] = dice.pick(Object.entries(operation.requestBody?.content ?? { '': { schema: {} } }));
    const wanted = operation.requestBody !== undefined || dice.chance(0.05);
    const value = valueFor(dice, content.schema, schemas, known);
    const changed = dice.chance(0.6) ? mutated(dice, value) : value;
    return {
      method: dice.chance(0.04) ? dice.pick(METHODS) : method,
      path: filledPath(dice, path, pool) + query(dice, operation.parameters ?? [], known),
      headers: headers(dice, type, tokens),
      body: wanted ? encoded(dice, changed) : null,
    };
  };
}

function filledPath(dice: Dice, path: string, pool: Pool): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const id = dice.pick(pool[name] ?? ['none']) ?? 'none';
    if (dice.chance(0.85)) return id;
    if (dice.chance(0.3)) return encodeURIComponent(wellFormed(dice.text()));
    const at = dice.int(id.length);
    return id.slice(0, at) + dice.pick(['z', '0', '%2F', '%00', '', '_', '%E0%A4%A']) + id.slice(at + 1);
  });
  if (!dice.chance(0.03)) return filled;
  return dice.pick([`/${filled}`, `${filled}/`, filled.toUpperCase(), filled.replace('/v1', '/v1/..'), `${filled};a=b`, `${filled}%3F`]);
}

function query(dice: Dice, parameters: readonly { name: string; in: string; schema: Schema }[], known: Known): string {
  const pairs: string[] = [];
  for (const { name, in: place, schema } of parameters) {
    if (place !== 'query' || dice.chance(0.5)) continue;
    const make = known[name];
    const value = dice.chance(0.7)
      ? make === undefined
        ? valueFor(dice, schema, {}, known)
        : make(dice)
      : dice.chance(0.5)
        ? dice.text()
        : dice.pick(ODD_VALUES);
    pairs.push(`${encodeURIComponent(name)}=${encodeURIComponent(wellFormed(typeof value === 'string' ? value : JSON.stringify(value)))}`);
  }
  if (dice.chance(0.05))
    pairs.push(dice.pick(['%', '%ff=1', 'a', '=', 'limit=1', 'limit=1', 'verify=true', '&&&', `x=${'y'.repeat(9_000)}`]));
  return pairs.length === 0 ? '' : `?${pairs.join('&')}`;
}

/** A surrogate alone has no escape. */
function wellFormed(text: string): string {
  return Buffer.from(text).toString();
}

function headers(dice: Dice, type: string, tokens: readonly string[]): Record<string, string> {
  const all: Record<string, string> = { authorization: `Bearer ${dice.pick(tokens)}` };
  if (dice.chance(0.03))
    all['authorization'] = dice.pick(['', 'Bearer', 'Bearer ', 'Basic eDp5', `Bearer ${'x'.repeat(3_000)}`, 'bearer none']);
  if (type !== '') all['content-type'] = dice.chance(0.95) ? type : dice.pick(TYPES);
  if (dice.chance(0.25)) all['idempotency-key'] = dice.chance(0.8) ? `key-${dice.int(40)}` : printable(dice.text());
  if (dice.chance(0.02)) all['content-encoding'] = dice.pick(['gzip', 'identity', 'br', 'x']);
  if (dice.chance(0.02)) all['expect'] = '100-continue';
  if (dice.chance(0.03)) all[`x-${dice.int(9)}`] = printable(dice.text());
  return all;
}

function printable(text: string): string {
  return text.replace(/[^\x20-\xff]/g, '?').slice(0, 2_000);
}
