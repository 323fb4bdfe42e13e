// Query strings: from text to the typed object of a schema, with its defaults. Nothing is clamped, guessed or ignored.
import type { Fault } from '../base/errors.ts';
import { check, type QueryName } from './check.ts';
import type { JsonSchema } from './definition.ts';
import { QUERIES } from './registry.ts';
import type { Queries } from './types.gen.ts';

/** More than the longest list of filters has. */
const PARAMETERS_MAX = 64;
const TEXT_LENGTH_MAX = 8192;
const INTEGER = /^(0|-?[1-9]\d{0,14})$/;

export type QueryResult<Value> = { ok: true; value: Value } | { ok: false; faults: Fault[] };

/** The parameters of a query string (without its `?`). `name` is null for an endpoint that takes none. A fault's path is the name of its parameter. */
export function parseQuery<N extends QueryName>(name: N, query: string | URLSearchParams): QueryResult<Queries[N]>;
export function parseQuery(name: QueryName | null, query: string | URLSearchParams): QueryResult<object>;
export function parseQuery(name: QueryName | null, query: string | URLSearchParams): QueryResult<object> {
  const schema: JsonSchema = name === null ? {} : (QUERIES[name] ?? {});
  const parameters = typeof query === 'string' ? split(query) : [...query];
  if (parameters === null || parameters.length > PARAMETERS_MAX) {
    return {
      ok: false,
      faults: [{ path: '', message: parameters === null ? 'is not a well-formed query string' : 'has too many parameters' }],
    };
  }
  const value: Record<string, unknown> = { ...defaultsOf(schema) };
  const faults: Fault[] = [];
  const given = new Set<string>();
  for (const [key, text] of parameters) {
    if (given.has(key)) faults.push({ path: key, message: 'is given more than once' });
    else if (!isKnown(schema, key)) faults.push({ path: key.slice(0, 128), message: 'is not a known parameter' });
    else value[key] = typed(schema.properties?.[key], text);
    given.add(key);
  }
  if (given.has('cursor') && given.has('offset')) faults.push({ path: 'cursor', message: 'cannot be given with offset' });
  if (name !== null) {
    for (const { path, message } of check(name, value)) faults.push({ path: path.slice(1), message });
  }
  return faults.length === 0 ? { ok: true, value } : { ok: false, faults };
}

/** Pairs of a query string, or null where its escapes are not UTF-8; URLSearchParams would put U+FFFD in their place. */
function split(query: string): [string, string][] | null {
  if (query.length > TEXT_LENGTH_MAX) return null;
  try {
    return query
      .split('&')
      .filter((pair) => pair !== '')
      .map((pair) => {
        const at = pair.indexOf('=');
        return at < 0 ? [decode(pair), ''] : [decode(pair.slice(0, at)), decode(pair.slice(at + 1))];
      });
  } catch {
    return null;
  }
}

function decode(text: string): string {
  return decodeURIComponent(text.replaceAll('+', ' '));
}

function isKnown(schema: JsonSchema, key: string): boolean {
  if (Object.hasOwn(schema.properties ?? {}, key)) return true;
  return Object.keys(schema.patternProperties ?? {}).some((pattern) => new RegExp(pattern, 'u').test(key));
}

/** The value that a text stands for; the text itself where it is not of the type, for the schema to refuse. */
function typed(schema: JsonSchema | undefined, text: string): unknown {
  if (schema?.type === 'integer' && INTEGER.test(text)) return Number(text);
  if (schema?.type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true';
  return text;
}

function defaultsOf(schema: JsonSchema): Record<string, unknown> {
  const filled = Object.entries(schema.properties ?? {}).filter(([, property]) => property.default !== undefined);
  return Object.fromEntries(filled.map(([key, property]) => [key, property.default]));
}
