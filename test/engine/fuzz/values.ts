// Values that a JSON Schema allows, and what becomes of them where something is changed.
import { type Dice, ODD_VALUES } from './dice.ts';

export type Schema = Readonly<Record<string, unknown>>;

/** Where references of schemas lead. */
export type Components = Readonly<Record<string, Schema>>;

/** Strings that fit what a field is for; by its name. */
export type Known = Readonly<Record<string, (dice: Dice) => unknown>>;

const DEPTH_MAX = 6;

/** Something that mostly fits the schema: conditions between fields (`if`, `allOf`) are left to chance. */
export function valueFor(dice: Dice, schema: Schema, components: Components, known: Known, depth = 0): unknown {
  const again = (part: unknown): unknown => valueFor(dice, part as Schema, components, known, depth + 1);
  if (typeof schema['$ref'] === 'string') return again(components[schema['$ref'].split('/').at(-1) ?? ''] ?? {});
  if (Array.isArray(schema['enum'])) return dice.pick(schema['enum'] as unknown[]);
  for (const key of ['oneOf', 'anyOf']) if (Array.isArray(schema[key])) return again(dice.pick(schema[key] as unknown[]));
  const types = ([] as unknown[]).concat(schema['type'] ?? 'any');
  switch (dice.pick(types)) {
    case 'object':
      return objectOf(dice, schema, components, known, depth);
    case 'array': {
      const [min, max] = [Number(schema['minItems'] ?? 0), Math.min(50, Number(schema['maxItems'] ?? 20))];
      return depth > DEPTH_MAX ? [] : Array.from({ length: Math.max(min, dice.count(max)) }, () => again(schema['items'] ?? {}));
    }
    case 'integer':
    case 'number':
      return number(dice, schema);
    case 'boolean':
      return dice.chance(0.5);
    case 'null':
      return null;
    case 'string':
      return string(dice, schema);
    default:
      return dice.chance(0.5) ? { n: dice.int(10), text: dice.text() } : dice.pick(ODD_VALUES);
  }
}

function objectOf(dice: Dice, schema: Schema, components: Components, known: Known, depth: number): object {
  const required = new Set(schema['required'] as string[] | undefined);
  const object: Record<string, unknown> = {};
  for (const [name, property] of Object.entries((schema['properties'] ?? {}) as Record<string, Schema>)) {
    if (!required.has(name) && (depth > DEPTH_MAX || dice.chance(0.6))) continue;
    const make = known[name];
    object[name] = make !== undefined && dice.chance(0.9) ? make(dice) : valueFor(dice, property, components, known, depth + 1);
  }
  if (schema['additionalProperties'] !== undefined && typeof schema['additionalProperties'] === 'object') {
    for (let i = dice.count(3); i > 0; i--)
      object[`k${dice.int(50)}`] = valueFor(dice, schema['additionalProperties'] as Schema, components, known, depth + 1);
  }
  return object;
}

function number(dice: Dice, schema: Schema): number {
  const min = Number(schema['minimum'] ?? schema['exclusiveMinimum'] ?? 0);
  const max = Math.min(Number(schema['maximum'] ?? schema['exclusiveMaximum'] ?? min + 1_000), min + 10_000);
  const value = dice.pick([min, max, min + dice.share() * (max - min)]);
  return schema['type'] === 'integer' ? Math.round(value) : value;
}

function string(dice: Dice, schema: Schema): string {
  if (schema['format'] === 'date-time') return new Date(1_790_000_000_000 + dice.int(2 ** 30) * 100).toISOString();
  const length = Number(schema['minLength'] ?? 0) + dice.count(20);
  return dice.chance(0.8) ? Array.from({ length }, () => dice.pick([...'abcXYZ019-_.'])).join('') : dice.text();
}

/** The value with something in it changed, or not. */
export function mutated(dice: Dice, value: unknown, share = 0.08): unknown {
  if (dice.chance(share)) return dice.chance(0.5) ? dice.pick(ODD_VALUES) : dice.text();
  if (Array.isArray(value)) {
    const list = value.map((item) => mutated(dice, item, share));
    if (dice.chance(share)) list.push(...list.slice(0, dice.count(3)));
    return list;
  }
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).filter(() => !dice.chance(share / 2));
  if (dice.chance(share)) entries.push([dice.text(), dice.pick(ODD_VALUES)]);
  return Object.fromEntries(entries.map(([name, item]) => [name, mutated(dice, item, share)]));
}

/** JSON of a value, at times with bytes in it that are none. */
export function encoded(dice: Dice, value: unknown): Buffer {
  const text = JSON.stringify(value) ?? '';
  if (!dice.chance(0.15)) return Buffer.from(text);
  const bytes = Buffer.from(text);
  const at = dice.int(bytes.length + 1);
  switch (dice.int(7)) {
    case 0:
      return bytes.subarray(0, at);
    case 1:
      return Buffer.concat([bytes.subarray(0, at), dice.bytes(dice.count(8)), bytes.subarray(at)]);
    case 2:
      for (let i = dice.count(4); i > 0 && bytes.length > 0; i--) bytes[dice.int(bytes.length)] = dice.int(256);
      return bytes;
    case 3:
      return Buffer.concat([Buffer.from('\ufeff'), bytes]);
    case 4:
      return Buffer.from(`${'['.repeat(dice.int(100_000))}${text}`);
    case 5:
      return Buffer.from(text.replace(/:/g, () => (dice.chance(0.2) ? ':1e999,"a":' : ':')));
    default:
      return Buffer.concat([bytes, bytes]);
  }
}
