// A small typed client of the API for end-to-end tests. Every answer under /v1 is held against the schema that the
// engine's own OpenAPI document gives for it, so a field too many or too few fails whatever test met it.
import assert from 'node:assert/strict';
import http from 'node:http';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import type {
  Batch,
  BatchChange,
  BatchCreated,
  BatchList,
  BatchListItem,
  Task,
  TaskList,
  TaskListItem,
} from '../../src/schema/types.gen.ts';
import { until } from './redis.ts';

export interface Reply {
  status: number;
  headers: http.IncomingHttpHeaders;
  text: string;
  /** Parsed body; null where it is empty or no JSON. */
  json: unknown;
}

export interface AskOptions {
  /** Sent as JSON. */
  body?: unknown;
  /** Sent as it is, as JSON unless `headers` say otherwise. */
  raw?: string | Buffer;
  /** null takes a header away. */
  headers?: Record<string, string | null>;
}

export interface ErrorBody {
  code: string;
  message: string;
  details: Record<string, unknown>;
}

export interface Client {
  ask(method: string, path: string, options?: AskOptions): Promise<Reply>;
  /** Asks, and fails unless it is refused with this status and code; the refusal. */
  refused(status: number, code: string, method: string, path: string, options?: AskOptions): Promise<ErrorBody>;
  create(body: unknown): Promise<BatchCreated>;
  batch(id: string): Promise<Batch>;
  batches(query?: string): Promise<BatchList>;
  add(id: string, body: unknown): Promise<BatchChange & { errors?: unknown; duplicates?: number }>;
  cancel(id: string): Promise<BatchChange>;
  release(id: string): Promise<Batch>;
  tasks(id: string, query?: string): Promise<TaskList>;
  /** All tasks of a batch, page by page. */
  allTasks(id: string): Promise<TaskListItem[]>;
  createTask(body: unknown): Promise<Task>;
  task(id: string): Promise<Task>;
  /** Waits until the batch has this status and nothing pending. */
  ended(id: string, status: Batch['status'], ms_max?: number): Promise<Batch>;
  /** Waits until the batch is as wanted. */
  batchWhen(id: string, holds: (batch: Batch) => boolean, ms_max?: number): Promise<Batch>;
  /** Waits until the task is as wanted. */
  taskWhen(id: string, holds: (task: Task) => boolean, ms_max?: number): Promise<Task>;
}

const WAIT_MS_MAX = 20_000;
const PAGE_MAX = 1_000;
const IDLE_MS_MAX = 5_000;

/** `engine` may be anything with a URL; `token` null sends no Authorization. */
export function api(engine: { url: string }, token: string | null): Client {
  // The engine closes a connection after ten idle seconds, perhaps just when the next request is on its way.
  const agent = new http.Agent({ keepAlive: true, timeout: IDLE_MS_MAX });
  const conform = conformance(engine.url);

  async function ask(method: string, path: string, options: AskOptions = {}): Promise<Reply> {
    const reply = await send(agent, engine.url, method, path, token, options);
    if (path.startsWith('/v1') && method !== 'HEAD') (await conform)(method, path, reply);
    return reply;
  }

  async function expect<T>(status: number, method: string, path: string, options: AskOptions = {}): Promise<T> {
    const reply = await ask(method, path, options);
    assert.equal(reply.status, status, `${method} ${path} answered ${reply.status}: ${reply.text.slice(0, 2_000)}`);
    return reply.json as T;
  }

  async function when<T>(read: () => Promise<T>, holds: (value: T) => boolean, ms_max: number, what: string): Promise<T> {
    let value = await read();
    const holdsNow = async (): Promise<boolean> => {
      if (holds(value)) return true;
      value = await read();
      return holds(value);
    };
    await until(holdsNow, ms_max, what).catch((error: unknown) => {
      throw new Error(`${String(error)}; the last look showed ${JSON.stringify(value).slice(0, 2_000)}`);
    });
    return value;
  }

  const client: Client = {
    ask,
    async refused(status, code, method, path, options) {
      const { error } = await expect<{ error: ErrorBody }>(status, method, path, options);
      assert.equal(error.code, code, `${method} ${path}: ${JSON.stringify(error)}`);
      return error;
    },
    create: (body) => expect(201, 'POST', '/v1/batches', { body }),
    batch: (id) => expect(200, 'GET', `/v1/batches/${id}`),
    batches: (query = '') => expect(200, 'GET', `/v1/batches${query}`),
    add: (id, body) => expect(200, 'POST', `/v1/batches/${id}/tasks`, { body }),
    cancel: (id) => expect(200, 'POST', `/v1/batches/${id}/cancel`),
    release: (id) => expect(200, 'POST', `/v1/batches/${id}/release`),
    tasks: (id, query = '') => expect(200, 'GET', `/v1/batches/${id}/tasks${query}`),
    async allTasks(id) {
      const all: TaskListItem[] = [];
      for (;;) {
        const { total, tasks } = await client.tasks(id, `?limit=${PAGE_MAX}&offset=${all.length}`);
        all.push(...tasks);
        if (all.length >= total || tasks.length === 0) return all;
      }
    },
    createTask: (body) => expect(201, 'POST', '/v1/tasks', { body }),
    task: (id) => expect(200, 'GET', `/v1/tasks/${id}`),
    batchWhen: (id, holds, ms_max = WAIT_MS_MAX) => when(() => client.batch(id), holds, ms_max, `batch ${id}`),
    taskWhen: (id, holds, ms_max = WAIT_MS_MAX) => when(() => client.task(id), holds, ms_max, `task ${id}`),
    ended: (id, status, ms_max) => client.batchWhen(id, (batch) => batch.status === status && batch.stats.pending === 0, ms_max),
  };
  return client;
}

/** The batch in a list of all batches of an account; undefined where it is not there. */
export async function inList(client: Client, id: string, query = ''): Promise<BatchListItem | undefined> {
  return (await client.batches(query)).batches.find((batch) => batch.id === id);
}

function send(agent: http.Agent, url: string, method: string, path: string, token: string | null, options: AskOptions): Promise<Reply> {
  const body = options.raw ?? (options.body === undefined ? null : JSON.stringify(options.body));
  const headers: Record<string, string | null> = {
    ...(token === null ? {} : { authorization: `Bearer ${token}` }),
    ...(body === null ? {} : { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) }),
    ...options.headers,
  };
  const kept = Object.fromEntries(Object.entries(headers).filter((pair): pair is [string, string] => pair[1] !== null));
  return new Promise((resolve, reject) => {
    const request = http.request(`${url}${path}`, { method, agent, headers: kept }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.once('error', reject);
      response.once('end', () => {
        const text = Buffer.concat(chunks).toString();
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text, json: parsed(text) });
      });
    });
    request.once('error', reject);
    if (body !== null) request.write(body);
    request.end();
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

interface Document {
  paths: Record<string, Record<string, { responses?: Record<string, { content?: Record<string, { schema: object }> }> }>>;
  components: { schemas: Record<string, object> };
}

type Conform = (method: string, path: string, reply: Reply) => void;
const known = new Map<string, Promise<Conform>>();

/** One document an engine, read once. */
export function conformance(url: string): Promise<Conform> {
  const found = known.get(url) ?? readConformance(url);
  known.set(url, found);
  found.catch(() => known.delete(url));
  return found;
}

async function readConformance(url: string): Promise<Conform> {
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as Document;
  const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
  ajv.addSchema({ $id: 'api', components: document.components });
  const rows = Object.entries(document.paths).map(([path, methods]) => ({ pattern: patternOf(path), methods }));
  const compiled = new Map<string, ValidateFunction>();
  return (method, path, reply) => {
    const plain = path.replace(/\?.*$/s, '');
    const row = rows.find(({ pattern }) => pattern.test(plain));
    const operation = row?.methods[method.toLowerCase()];
    if (operation === undefined) return; // 404 of the path, 405, OPTIONS
    const response = operation.responses?.[String(reply.status)];
    assert.ok(
      response,
      `${method} ${path} answered ${reply.status}, which its OpenAPI document does not know: ${reply.text.slice(0, 500)}`,
    );
    const schema = response.content?.['application/json']?.schema;
    if (schema === undefined) return;
    const local = JSON.stringify(schema).replaceAll('#/components/', 'api#/components/');
    const validate = compiled.get(local) ?? ajv.compile(JSON.parse(local) as object);
    compiled.set(local, validate);
    assert.ok(validate(reply.json), `${method} ${path}: ${ajv.errorsText(validate.errors)} in ${reply.text.slice(0, 2_000)}`);
  };
}

function patternOf(path: string): RegExp {
  return new RegExp(`^${path.replaceAll(/\{\w+\}/g, '[^/]+')}$`);
}
