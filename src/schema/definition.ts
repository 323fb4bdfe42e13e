// What a schema is made of: the part of JSON Schema 2020-12 (as OpenAPI 3.1 takes it) that the wire contract uses.
import { PATTERN } from './formats.ts';

export type JsonType = 'string' | 'integer' | 'number' | 'boolean' | 'object' | 'array' | 'null';

export interface JsonSchema {
  readonly $ref?: string;
  readonly description?: string;
  readonly type?: JsonType | readonly JsonType[];
  readonly enum?: readonly string[];
  readonly default?: unknown;
  readonly format?: 'date-time';
  readonly pattern?: string;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly exclusiveMinimum?: number;
  readonly maximum?: number;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly patternProperties?: Readonly<Record<string, JsonSchema>>;
  readonly propertyNames?: JsonSchema;
  readonly additionalProperties?: false | JsonSchema;
  readonly required?: readonly string[];
  readonly minProperties?: number;
  readonly maxProperties?: number;
  readonly items?: JsonSchema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly allOf?: readonly JsonSchema[];
  readonly anyOf?: readonly JsonSchema[];
  readonly if?: JsonSchema;
  readonly then?: JsonSchema;
  readonly else?: JsonSchema;
  readonly not?: JsonSchema;
}

export type SchemaTable = Readonly<Record<string, JsonSchema>>;

const REF = '#/components/schemas/';

/** A reference to another schema of the registry. */
export function ref(name: string): JsonSchema {
  return { $ref: `${REF}${name}` };
}

/** The name in a reference made by `ref`. */
export function refName(reference: string): string {
  return reference.slice(REF.length);
}

/** Pieces that several resources share. */
export const TIMESTAMP = { type: 'string', format: 'date-time' } as const satisfies JsonSchema;

export const DESCRIPTION = {
  type: 'string',
  maxLength: 1024,
  pattern: PATTERN.text,
  description: 'For people. At most 1,024 characters.',
} as const satisfies JsonSchema;

export const LIMITER_NAME = {
  type: 'string',
  pattern: PATTERN.limiter_name,
  description: 'Name of a rate limiter.',
} as const satisfies JsonSchema;

export const COUNT = { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER } as const satisfies JsonSchema;

/** The query parameters of every list. A value outside the range is refused, never clamped. */
export const PAGE = {
  limit: { type: 'integer', minimum: 1, maximum: 1000, default: 100, description: 'How many items to return.' },
  offset: { type: 'integer', minimum: 0, maximum: 100_000, default: 0, description: 'How many items to skip.' },
} as const satisfies SchemaTable;

/** The same for lists that can be walked from item to item. */
export const CURSOR_PAGE = {
  ...PAGE,
  cursor: {
    type: 'string',
    maxLength: 64,
    pattern: '^[A-Za-z0-9_-]*$',
    description: 'Where to go on: next_cursor of the page before, or nothing for the first page. Takes the place of offset.',
  },
} as const satisfies SchemaTable;

export const NEXT_CURSOR = {
  type: ['string', 'null'],
  description: 'In answers to requests with a cursor: that of the next page, null where there is none.',
} as const satisfies JsonSchema;

/** An object that takes these properties and no others. */
export function closed<const P extends SchemaTable, const R extends readonly (keyof P & string)[]>(
  description: string,
  properties: P,
  required: R,
): { type: 'object'; description: string; properties: P; required: R; additionalProperties: false } {
  return { type: 'object', description, properties, required, additionalProperties: false };
}
