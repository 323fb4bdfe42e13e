// The OpenAPI document as people read it: endpoints by tag, what they take and answer, and the objects that these are made of.
// docs/api.md and the page /docs are made of this.
import { type JsonSchema, refName } from './definition.ts';

export interface Reference {
  version: string;
  sections: Section[];
  objects: ObjectDoc[];
}

export interface Section {
  title: string;
  endpoints: EndpointDoc[];
}

export interface EndpointDoc {
  /** `POST /v1/batches`. */
  title: string;
  name: string;
  summary: string;
  description: string;
  /** The least scope of a token that may call it; '' where it needs none. */
  scope: string;
  parameters: FieldDoc[];
  /** Name of the object that it takes; '' for none. */
  body: string;
  /** Status of the answer, and the name of the object that it has, or what else it is; '' for neither. */
  status: string;
  answer: string;
  /** `404 batch_not_found`. */
  errors: string[];
  sample: string;
}

export interface ObjectDoc {
  name: string;
  description: string;
  fields: FieldDoc[];
}

export interface FieldDoc {
  name: string;
  /** `query`, `header` or `path` of a parameter; '' of a field. */
  where: string;
  required: boolean;
  type: string;
  meaning: string;
}

interface Content {
  schema?: JsonSchema;
  examples?: Record<string, unknown>;
}

interface Operation {
  operationId: string;
  summary: string;
  description?: string;
  tags: string[];
  'x-scope'?: string;
  'x-codeSamples': { source: string }[];
  parameters?: { name: string; in: string; required: boolean; description?: string; schema: JsonSchema }[];
  requestBody?: { content: Record<string, Content> };
  responses: Record<string, { description: string; content?: Record<string, Content> }>;
}

interface Document {
  info: { version: string };
  tags: { name: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, JsonSchema> };
}

/** `document` is what buildOpenApi made, or its text parsed. */
export function referenceOf(document: unknown): Reference {
  const { info, tags, paths, components } = document as Document;
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ title: `${method.toUpperCase()} ${path}`, operation })),
  );
  return {
    version: info.version,
    sections: tags.map(({ name }) => ({
      title: name,
      endpoints: operations
        .filter(({ operation }) => operation.tags[0] === name)
        .map(({ title, operation }) => endpointDoc(title, operation)),
    })),
    objects: Object.entries(components.schemas)
      .map(([name, schema]) => objectDoc(name, schema))
      .filter(({ fields }) => fields.length > 0),
  };
}

function endpointDoc(title: string, operation: Operation): EndpointDoc {
  const { responses, requestBody, parameters = [] } = operation;
  const [[status, answer] = ['', undefined]] = Object.entries(responses).filter(([code]) => Number(code) < 300);
  const failures = Object.entries(responses).filter(([code]) => Number(code) >= 400);
  return {
    title,
    name: operation.operationId,
    summary: operation.summary,
    description: operation.description ?? '',
    scope: operation['x-scope'] ?? '',
    parameters: parameters.map(({ name, in: where, required, description, schema }) =>
      fieldDoc(name, description === undefined ? schema : { ...schema, description }, where, required),
    ),
    body: nameIn(requestBody?.content),
    status,
    answer: nameIn(answer?.content),
    errors: failures.flatMap(([code, { content }]) =>
      Object.keys(content?.['application/json']?.examples ?? {}).map((error) => `${code} ${error}`),
    ),
    sample: operation['x-codeSamples'].map(({ source }) => source).join('\n'),
  };
}

/** The object that a body is, or the type of one that is none. */
function nameIn(content: Record<string, Content> | undefined): string {
  const { $ref } = content?.['application/json']?.schema ?? {};
  if ($ref !== undefined) return refName($ref);
  const [[type, { schema }] = ['', {}]] = Object.entries(content ?? {});
  return schema?.description ?? type;
}

function objectDoc(name: string, schema: JsonSchema): ObjectDoc {
  const fields = Object.entries(schema.properties ?? {}).map(([field, value]) =>
    fieldDoc(field, value, '', schema.required?.includes(field) ?? false),
  );
  return { name, description: schema.description ?? '', fields };
}

function fieldDoc(name: string, schema: JsonSchema, where: string, required: boolean): FieldDoc {
  return { name, where, required, type: typeText(schema), meaning: meaningOf(schema) };
}

function meaningOf({ description = '', ...schema }: JsonSchema): string {
  const set = schema.default === undefined ? '' : `Default: ${JSON.stringify(schema.default)}.`;
  return [description, rangeText(schema), set].filter((part) => part !== '').join(' ');
}

/** `integer`, `TaskInput[]`, `"a" | "b"`, `string | null`. */
function typeText(schema: JsonSchema): string {
  if (schema.$ref !== undefined) return refName(schema.$ref);
  if (schema.enum !== undefined) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  if (schema.anyOf !== undefined) return schema.anyOf.map(typeText).join(' | ');
  if (schema.type === 'array') return `${typeText(schema.items ?? {})}[]`;
  if (schema.format === 'date-time') return 'time';
  if (schema.type === undefined) return 'any';
  return (typeof schema.type === 'string' ? [schema.type] : schema.type).join(' | ');
}

function rangeText({ minimum, exclusiveMinimum, maximum, minItems, maxItems }: JsonSchema): string {
  const [least, most] = [minimum ?? minItems, maximum ?? maxItems];
  const unit = minItems !== undefined || maxItems !== undefined ? ' items' : '';
  const number = (value: number): string => value.toLocaleString('en');
  if (exclusiveMinimum !== undefined) return `Above ${number(exclusiveMinimum)}${most === undefined ? '' : `, at most ${number(most)}`}.`;
  const bounded = most !== undefined && most < Number.MAX_SAFE_INTEGER;
  if (least !== undefined && bounded) return `${number(least)} to ${number(most)}${unit}.`;
  if (bounded) return `At most ${number(most)}${unit}.`;
  return least !== undefined && least > 0 ? `At least ${number(least)}${unit}.` : '';
}
