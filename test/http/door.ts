// A front door on a real socket, with an API made of plain functions behind it, and two ways to knock: as a client would,
// and byte by byte.
import { once } from 'node:events';
import http from 'node:http';
import net from 'node:net';
import { after } from 'node:test';
import { type Answer, type Api, type Call, HANDLERS, type Handler, type HandlerName } from '../../src/api/call.ts';
import { newCore, taskId } from '../../src/base/id.ts';
import { createLog } from '../../src/base/log.ts';
import { Authenticator } from '../../src/http/auth.ts';
import { type RequestRecord, type ServerOptions, startServer } from '../../src/http/serve.ts';
import { newTokenText, type Scope, tokenHash } from '../../src/store/tokens.ts';

export const ADMIN = 'an-admin-token-for-tests';
export const READ = newTokenText();
export const BATCH = `batch_${newCore(3, 1_700_000_000_000)}`;
export const TASK = taskId(newCore(3, 1_700_000_000_000), 7);
export const TASKS = { tasks: [{ target: 'https://example.com/hook', payload: { n: 1 } }] };

const SCOPES: Record<string, Scope> = { [tokenHash(READ)]: 'read' };

export interface Response {
  status: number;
  headers: http.IncomingHttpHeaders;
  text: string;
  /** Parsed body; null where it is empty. */
  json: unknown;
}

export interface Door {
  port: number;
  /** What reached the API, in order. */
  calls: { name: HandlerName; call: Call }[];
  records: RequestRecord[];
  /** Lines of the log. */
  lines: string[];
  server: Awaited<ReturnType<typeof startServer>>;
  ask(method: string, path: string, options?: AskOptions): Promise<Response>;
  /** A connection to write to by hand. */
  dial(): Promise<Dialed>;
}

export interface AskOptions {
  token?: string | null;
  headers?: Record<string, string>;
  /** An object is sent as JSON, a string as it is. */
  body?: unknown;
}

export interface Dialed {
  socket: net.Socket;
  /** Everything that came so far. */
  text(): string;
  /** Resolves once the text matches; rejects where the connection closes before. */
  until(pattern: RegExp): Promise<string>;
  closed: Promise<void>;
}

export interface DoorOptions extends Partial<Omit<ServerOptions, 'api'>> {
  api?: Partial<Record<HandlerName, (call: Call) => Promise<Answer> | Answer>>;
  precheck?: Api['precheck'];
}

export async function openDoor(options: DoorOptions = {}): Promise<Door> {
  const calls: Door['calls'] = [];
  const records: RequestRecord[] = [];
  const lines: string[] = [];
  const { api: given = {}, precheck = {}, ...rest } = options;
  const handler =
    (name: HandlerName): Handler =>
    async (call) => {
      calls.push({ name, call });
      return (await given[name]?.(call)) ?? { body: { name } };
    };
  const handlers = Object.fromEntries(HANDLERS.map((name) => [name, handler(name)])) as Record<HandlerName, Handler>;
  const server = await startServer({
    host: '127.0.0.1',
    port: 0,
    api: Object.assign(handlers, { precheck }),
    auth: new Authenticator({ lookup: lookUp, fixed: [{ account: 'acme', token: ADMIN }], clock: Date.now }),
    ops: { ready: async () => ({ ok: true, checks: { redis: 'ok' } }), metrics: async () => '# metrics\n' },
    log: createLog({ destination: { write: (line) => lines.push(line) } }),
    onRequest: (record) => records.push(record),
    ...rest,
  });
  after(() => server.stop(0));
  return {
    port: server.port,
    calls,
    records,
    lines,
    server,
    ask: (method, path, asked = {}) => ask(server.port, method, path, asked),
    dial: () => dial(server.port),
  };
}

async function lookUp(hash: string) {
  const scope = SCOPES[hash];
  if (scope === undefined) return null;
  return { id: 'tok', account: 'acme', scope, created_at_ms: 0, expires_at_ms: null, revoked_at_ms: null };
}

async function ask(port: number, method: string, path: string, { token = ADMIN, headers = {}, body }: AskOptions): Promise<Response> {
  const sent: Record<string, string> = { ...(token === null ? {} : { authorization: `Bearer ${token}` }) };
  if (typeof body === 'object') sent['content-type'] = 'application/json';
  const payload = body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body);
  if (payload !== undefined) sent['content-length'] = String(Buffer.byteLength(payload));
  const request = http.request({ port, host: '127.0.0.1', method, path, headers: { ...sent, ...headers }, agent: false });
  request.end(payload);
  const [response] = (await once(request, 'response')) as [http.IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  const json: unknown = text !== '' && response.headers['content-type'] === 'application/json' ? JSON.parse(text) : null;
  return { status: response.statusCode ?? 0, headers: response.headers, text, json };
}

async function dial(port: number): Promise<Dialed> {
  const socket = net.connect(port, '127.0.0.1');
  await once(socket, 'connect');
  let text = '';
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  socket.on('error', () => {}); // A reset shows as a close.
  socket.on('data', (data) => {
    text += data.toString('latin1');
  });
  after(() => socket.destroy());
  return {
    socket,
    closed,
    text: () => text,
    until: (pattern) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if (pattern.test(text)) resolve(text);
        };
        socket.on('data', look);
        socket.once('close', () => (pattern.test(text) ? resolve(text) : reject(new Error(`closed after ${JSON.stringify(text)}`))));
        look();
      }),
  };
}

/** Head of a raw request, with everything that each needs. */
export function head(line: string, headers: Record<string, string | number> = {}): string {
  const lines = Object.entries({ host: 'sluice', authorization: `Bearer ${ADMIN}`, ...headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  return `${line} HTTP/1.1\r\n${lines.join('')}\r\n`;
}

/** The fields of an error answer; throws where it is not in the envelope. */
export function refused(response: Response): { status: number; code: string; details: Record<string, unknown> } {
  const { error, ...others } = response.json as { error: { code: string; message: string; details: Record<string, unknown> } };
  if (Object.keys(others).length > 0 || Object.keys(error).join() !== 'code,message,details' || error.message === '') {
    throw new Error(`not an error envelope: ${response.text}`);
  }
  return { status: response.status, code: error.code, details: error.details };
}

/** A promise with its handle outside. */
export function gate(): { opened: Promise<void>; open: () => void } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}
