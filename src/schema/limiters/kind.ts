// What a kind of limiter is to a caller: its configuration and what it promises. How it decides is in lua/lib/limiter.
import { closed, type JsonSchema, type SchemaTable } from '../definition.ts';

/** One way to configure a kind. */
export interface ConfigForm {
  /** Of its schema in the OpenAPI document. */
  name: string;
  schema: JsonSchema;
}

export interface LimiterKind {
  /** In entries of work and in Lua, where a word would be repeated for every task. */
  letter: string;
  /** What it promises, in a sentence. */
  meaning: string;
  /** When to take it. */
  use_for: string;
  /** The first one is meant where no field tells. */
  forms: readonly [ConfigForm, ...ConfigForm[]];
  /** Where tasks cost more than one unit: the field of the configuration that no cost may exceed. */
  cost_max?: string;
}

/** A form that takes these fields; all are required but those named. */
export function form<const P extends SchemaTable>(
  name: string,
  description: string,
  fields: P,
  optional: readonly string[] = [],
): ConfigForm {
  const required = Object.keys(fields).filter((field) => !optional.includes(field));
  return { name, schema: closed<SchemaTable, readonly string[]>(description, fields, required) };
}

const UNITS_MAX = 1_000_000;
const INTERVAL_S_MAX = 2_592_000;

/** A number of starts, drops or points. */
export function units(description: string, maximum = UNITS_MAX): JsonSchema {
  return { type: 'integer', minimum: 1, maximum, description };
}

export const INTERVAL: JsonSchema = { type: 'integer', minimum: 1, maximum: INTERVAL_S_MAX, description: 'Seconds; at most 30 days.' };
