// The OpenAPI 3.1 document: the schemas that validate, the error table, and one row for each route.
import { ERRORS, type ErrorName, wireCode } from '../base/errors.ts';
import type { QueryName, SchemaName } from './check.ts';
import { type JsonSchema, ref } from './definition.ts';
import { QUERIES, SCHEMAS } from './registry.ts';

/** What the document says about a route. */
export interface RouteDoc {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** As in `/v1/batches/{batch_id}`. */
  path: string;
  /** operationId, unique. */
  name: string;
  summary: string;
  description?: string;
  /** Null where no token is needed. */
  scope: 'read' | 'write' | 'admin' | null;
  query: QueryName | null;
  body: SchemaName | null;
  /** It may be left out. */
  body_optional?: true;
  /** It may also be one task a line. */
  lines?: true;
  /** Null where the answer is described by its status alone. */
  reply: SchemaName | null;
  /** The answer has one such a line, of any number. */
  reply_lines?: true;
  /** Of the answer when all is well. */
  status: number;
  /** Beyond those that follow from scope, query and body. */
  errors: readonly ErrorName[];
  tags: readonly string[];
  /** Answers with messages that follow one another; a ticket in the query may stand for the token. */
  stream?: 'websocket' | 'events';
  /** What it makes goes on with the trace of its request. */
  traced?: true;
  /** A command that calls it, with ids from the environment. */
  sample: string;
  /** Takes an Idempotency-Key; by default a POST of scope write does. */
  idempotent?: boolean;
}

type Json = Record<string, unknown>;

const STATUS_TEXT: Record<number, string> = {
  200: 'OK.',
  201: 'Created.',
  202: 'Accepted.',
  204: 'Nothing to say.',
  101: 'Switching protocols.',
};

/** The whole document, ready for JSON.stringify. `version` is the version of the service. */
export function buildOpenApi(routes: readonly RouteDoc[], version: string): Json {
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const path = paths[route.path] ?? {};
    path[route.method.toLowerCase()] = operation(route);
    paths[route.path] = path;
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Sluice',
      version,
      summary: 'Batches of HTTP calls, schedules and exact rate limiters.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    tags: [...new Set(routes.flatMap((route) => route.tags))].map((name) => ({ name })),
    paths,
    components: {
      schemas: SCHEMAS,
      securitySchemes: {
        token: {
          type: 'http',
          scheme: 'bearer',
          description: 'An access token. Its scope is read, write or admin, each of which includes the one before.',
        },
        ticket: { type: 'apiKey', in: 'query', name: 'ticket', description: 'A ticket for one stream of one batch.' },
      },
      headers: {
        RequestId: { description: 'Names this request in the logs.', schema: { type: 'string' } },
        RetryAfter: { description: 'Whole seconds to wait, at least 1.', schema: { type: 'integer', minimum: 1 } },
      },
    },
  };
}

function operation(route: RouteDoc): Json {
  const parameters = [...pathParameters(route.path), ...queryParameters(route.query), ...idempotencyKey(route), ...traceHeader(route)];
  return {
    operationId: route.name,
    summary: route.summary,
    ...(route.description === undefined ? {} : { description: route.description }),
    tags: route.tags,
    security: route.scope === null ? [] : [{ token: [] }, ...(route.stream === undefined ? [] : [{ ticket: [] }])],
    ...(route.scope === null ? {} : { 'x-scope': route.scope }),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(route.body === null
      ? {}
      : { requestBody: { required: route.body_optional !== true, content: bodyContent(route.body, route.lines === true) } }),
    responses: { [route.status]: success(route), ...failures(route) },
    'x-codeSamples': [{ lang: 'Shell', source: route.sample }],
  };
}

function bodyContent(body: SchemaName, lines: boolean): Json {
  const description = 'One TaskInput as JSON a line; empty lines are skipped.';
  return {
    'application/json': { schema: ref(body) },
    ...(lines ? { 'application/x-ndjson': { schema: { type: 'string', description } } } : {}),
  };
}

function pathParameters(path: string): Json[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string', maxLength: 64 },
  }));
}

function queryParameters(name: QueryName | null): Json[] {
  if (name === null) return [];
  const schema: JsonSchema = QUERIES[name] ?? {};
  const named = Object.entries(schema.properties ?? {}).map(([key, { description, ...rest }]) => ({
    name: key,
    in: 'query',
    required: schema.required?.includes(key) ?? false,
    ...(description === undefined ? {} : { description }),
    schema: rest,
  }));
  if (schema.patternProperties === undefined) return named;
  // An exploded object: each of its properties is a parameter of its own.
  const open = { type: 'object', patternProperties: schema.patternProperties, additionalProperties: false };
  const description = 'Filters by label: label.<key>=<value>, each at most once; all must hold.';
  return [...named, { name: 'label', in: 'query', required: false, style: 'form', explode: true, description, schema: open }];
}

function idempotencyKey(route: RouteDoc): Json[] {
  if (!(route.idempotent ?? (route.method === 'POST' && route.scope === 'write'))) return [];
  return [
    {
      name: 'Idempotency-Key',
      in: 'header',
      required: false,
      description: 'The same key and body within 24 hours returns the first answer again, with Idempotent-Replayed: true.',
      schema: { type: 'string', minLength: 1, maxLength: 255, pattern: '^[\\x21-\\x7e]+$' },
    },
  ];
}

function traceHeader({ traced }: RouteDoc): Json[] {
  if (traced !== true) return [];
  return [
    {
      name: 'traceparent',
      in: 'header',
      required: false,
      description:
        'W3C Trace Context, with tracestate: goes on with the calls of the tasks that are made. One that is not valid counts as none.',
      schema: { type: 'string' },
    },
  ];
}

function success(route: RouteDoc): Json {
  return {
    description: STATUS_TEXT[route.status] ?? 'Done.',
    headers: { 'X-Request-Id': { $ref: '#/components/headers/RequestId' } },
    ...(route.reply === null ? {} : { content: replyContent(route.reply, route.reply_lines === true) }),
    ...(route.stream === 'events' ? { content: { 'text/event-stream': { schema: { type: 'string' } } } } : {}),
  };
}

function replyContent(reply: SchemaName, lines: boolean): Json {
  if (!lines) return { 'application/json': { schema: ref(reply) } };
  return { 'application/x-ndjson': { schema: { type: 'string', description: `One ${reply} as JSON a line.` } } };
}

/** Every refusal of a route, one answer for each status. */
function failures(route: RouteDoc): Record<string, Json> {
  // An endpoint that takes neither query nor body refuses both.
  const names = new Set<ErrorName>([...route.errors, 'validation_error']);
  // Too many bad tokens from an address are refused wherever they come.
  if (route.scope !== null) for (const name of ['unauthorized', 'forbidden', 'rate_limited', 'unavailable'] as const) names.add(name);
  // What is sent where no body is wanted is judged as one all the same.
  if (route.method !== 'GET') for (const name of ['invalid_json', 'payload_too_large', 'unsupported_media_type'] as const) names.add(name);
  if (idempotencyKey(route).length > 0) for (const name of ['idempotency_conflict', 'idempotency_key_reused'] as const) names.add(name);
  names.add('internal_error');

  const by_status = new Map<number, ErrorName[]>();
  for (const name of (Object.keys(ERRORS) as ErrorName[]).filter((one) => names.has(one))) {
    by_status.set(ERRORS[name].status, [...(by_status.get(ERRORS[name].status) ?? []), name]);
  }
  return Object.fromEntries([...by_status].map(([status, rows]) => [status, failure(status, rows)]));
}

function failure(status: number, rows: readonly ErrorName[]): Json {
  const example = (name: ErrorName): [string, Json] => [
    wireCode(name),
    { value: { error: { code: wireCode(name), message: ERRORS[name].text, details: {} } } },
  ];
  return {
    description: rows.map((name) => `\`${wireCode(name)}\`: ${ERRORS[name].text}`).join('\n\n'),
    headers: {
      'X-Request-Id': { $ref: '#/components/headers/RequestId' },
      ...(status === 429 || status === 503 ? { 'Retry-After': { $ref: '#/components/headers/RetryAfter' } } : {}),
    },
    content: { 'application/json': { schema: ref('ErrorReply'), examples: Object.fromEntries(rows.map(example)) } },
  };
}
