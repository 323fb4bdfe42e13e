// The front door: one uWebSockets.js app, one handler for every path and method, and its drain.
//
// What the native parser refuses (no Host, HTTP/1.0, headers over 16 KiB, a length that is no number) it answers itself,
// with a page of its own, and closes; it also closes slow senders (headers: 10 s; bodies: 16 KB/s) and idle connections
// (10 s), and a connection that sends its next request before it has its answer.
import { createServer } from 'node:net';
import type { Api } from '../api/call.ts';
import { type Clock, systemClock } from '../base/clock.ts';
import { ApiError } from '../base/errors.ts';
import type { Place } from '../base/line.ts';
import type { Log } from '../base/log.ts';
import { Rooms } from '../base/rooms.ts';
import { isUnavailable } from '../store/errors.ts';
import type { StreamHub } from '../streams/hub.ts';
import { type Reply, refusal } from './answer.ts';
import type { Authenticator } from './auth.ts';
import { BodyBudget } from './body.ts';
import { Connections } from './connections.ts';
import { OtherCork } from './cork.ts';
import { type EndpointHost, type Quota, serveRoute } from './endpoint.ts';
import { Exchange, type ExchangeHost, type RequestRecord } from './exchange.ts';
import { OPENAPI } from './openapi.gen.ts';
import { draining, OPS_ROUTES, type Ops, type OpsHost, type OpsRoute } from './ops.ts';
import { notModified, type Pages, pageReply } from './pages.ts';
import { Pending } from './pending.ts';
import { referencePages } from './reference.ts';
import { allowed, type Match, Router } from './router.ts';
import { makeRoutes, STREAM_PATH } from './routes.ts';
import { type StreamMeter, Streams } from './streams.ts';
import { beginSpan, type RequestTracing } from './traced.ts';
import { type HttpRequest, type HttpResponse, listen, type us_listen_socket, type us_socket_context_t, uws } from './uws.ts';

export type { Quota } from './endpoint.ts';
export type { RequestRecord } from './exchange.ts';
export type { Ops } from './ops.ts';
export type { RequestTracing } from './traced.ts';

export interface ServerOptions {
  host: string;
  /** 0: any free one. */
  port: number;
  /** null: health and metrics alone. */
  api: Api | null;
  auth: Authenticator;
  ops: Ops;
  log: Log;
  clock?: Clock;
  /** Bearer token of /metrics; null: open. */
  metrics_token?: string | null;
  quota?: Quota | null;
  /** The dashboard; default: none. */
  pages?: Pages;
  max_body_bytes?: number;
  /** Of all requests together. */
  bodies_bytes_max?: number;
  /** Where the largest bodies are read into, which whoever gets them gives back, and who is told of all that was answered. */
  large?: { rooms: Rooms; served(bytes_in: number): void };
  /** For the whole of a request, but for the time that its body takes to come in; for each mebibyte of it there is a second more. */
  request_ms?: number;
  /** null: 80 % of the limit on open files. */
  connections_max?: number | null;
  /** null: progress streams are not served. */
  streams?: { hub: StreamHub; meter: StreamMeter } | null;
  onRequest?(record: RequestRecord): void;
  /** Default: requests are not traced. */
  tracing?: RequestTracing | null;
}

export interface Server {
  readonly port: number;
  /** Open connections, WebSockets too. */
  readonly connections: number;
  /** Takes no new requests, lets those that run end, and closes all connections at the latest after `deadline_ms`. */
  stop(deadline_ms: number): Promise<void>;
}

const MEBI = 1024 * 1024;
const REQUEST_MS = 10_000;
/** For the last answers to leave; a client that reads slower than this loses its answer to the drain. */
const LINGER_MS = 250;

type Endpoint = (x: Exchange, req: HttpRequest, params: Record<string, string>) => Promise<Reply | null>;
interface Named {
  name: string;
  /** What its spans are named after; null: requests are not traced, since machines make them every few seconds, or a browser for a page. */
  template: string | null;
  serve: Endpoint;
  while_draining: boolean;
}

/** Its message is for the operator. */
export class CannotListen extends Error {}

/** Listens, or rejects with CannotListen. */
export async function startServer(options: ServerOptions): Promise<Server> {
  const door = new FrontDoor(options);
  const port = await door.listen(options.host, options.port);
  return {
    port,
    get connections() {
      return door.connections;
    },
    stop: (deadline_ms) => door.stop(deadline_ms),
  };
}

class FrontDoor implements ExchangeHost, EndpointHost, OpsHost {
  readonly clock: Clock;
  readonly auth: Authenticator;
  readonly precheck: NonNullable<Api['precheck']>;
  readonly quota: Quota | null;
  readonly ops: Ops;
  readonly openapi = OPENAPI;
  readonly metrics_token: string | null;
  readonly max_body_bytes: number;
  readonly request_ms: number;
  readonly budget: BodyBudget;
  readonly onRequest: (record: RequestRecord) => void;
  readonly streams: Streams | null;
  readonly cork = new OtherCork();
  draining = false;

  readonly #tracing: RequestTracing | null;
  readonly #log: Log;
  readonly #app = uws.App();
  readonly #router = new Router<Named>();
  readonly #pending = new Pending();
  readonly #connections: Connections;
  readonly #serves_api: boolean;
  #listening: us_listen_socket | null = null;
  #stopped: Promise<void> | null = null;

  constructor(options: ServerOptions) {
    this.clock = options.clock ?? systemClock;
    this.auth = options.auth;
    this.precheck = options.api?.precheck ?? {};
    this.quota = options.quota ?? null;
    this.ops = options.ops;
    this.metrics_token = options.metrics_token ?? null;
    this.max_body_bytes = options.max_body_bytes ?? 16 * MEBI;
    this.request_ms = options.request_ms ?? REQUEST_MS;
    this.budget = new BodyBudget(
      options.bodies_bytes_max ?? Math.max(256 * MEBI, 2 * this.max_body_bytes),
      options.large?.rooms ?? new Rooms(),
    );
    this.onRequest = (record) => {
      options.large?.served(record.bytes_in);
      options.onRequest?.(record);
    };
    this.#tracing = options.tracing ?? null;
    this.#log = options.log;
    this.#connections = new Connections(options.connections_max ?? null);
    this.#serves_api = options.api !== null;
    this.#addOps(options.api === null ? OPS_ROUTES.filter(({ name }) => name !== 'openapi') : OPS_ROUTES);
    if (options.api !== null) {
      this.#addRoutes(options.api);
      this.#addPages(options.pages ?? new Map());
      this.#addReference();
    }
    this.#connections.watch(this.#app);
    this.streams =
      options.streams == null
        ? null
        : new Streams(this.#app, options.streams.hub, options.streams.meter, (token) => this.auth.holds(token));
    this.streams?.serve(
      STREAM_PATH.replace('{batch_id}', ':batch_id'),
      (res, req, context) => this.#handle(res, req, context),
      () => this.#connections.left(),
    );
    this.#app.any('/*', (res, req) => this.#handle(res, req));
  }

  #addRoutes(api: Api): void {
    for (const route of makeRoutes(api)) {
      const serve: Endpoint = (x, req, params) => serveRoute(this, x, req, route, params);
      this.#router.add(route.method, route.path, { name: route.name, template: route.path, serve, while_draining: false });
    }
  }

  #addOps(routes: readonly OpsRoute[]): void {
    for (const { name, path, run } of routes) {
      const serve: Endpoint = (_x, req) => run(this, req.getHeader('authorization'));
      this.#router.add('GET', path, { name, template: null, serve, while_draining: true });
    }
  }

  #addPages(pages: Pages): void {
    for (const [path, page] of pages) {
      const serve: Endpoint = async (_x, req) => pageReply(page, req.getHeader('if-none-match'));
      this.#router.add('GET', path, { name: 'dashboard', template: null, serve, while_draining: false });
    }
  }

  #addReference(): void {
    for (const [path, page] of referencePages(this.openapi)) {
      const serve: Endpoint = async (_x, req) => notModified(page(), req.getHeader('if-none-match'));
      this.#router.add('GET', path, { name: 'reference', template: null, serve, while_draining: false });
    }
  }

  async listen(host: string, port: number): Promise<number> {
    if (this.#serves_api) await this.cork.open();
    const socket = await listen(this.#app, host, port);
    if (socket === false) {
      this.streams?.stop();
      this.#pending.stop();
      this.cork.close();
      throw new CannotListen(`Cannot listen on ${host}:${port}: ${await whyNot(host, port)}.`);
    }
    this.#listening = socket;
    return uws.us_socket_local_port(socket);
  }

  get connections(): number {
    return this.#connections.open;
  }

  stop(deadline_ms: number): Promise<void> {
    this.#stopped ??= this.#drain(deadline_ms);
    return this.#stopped;
  }

  async #drain(deadline_ms: number): Promise<void> {
    this.draining = true;
    if (this.#listening !== null) uws.us_listen_socket_close(this.#listening);
    this.streams?.endAll('shutdown');
    await this.#pending.idle(deadline_ms);
    // Of a request that was let in before the drain.
    this.streams?.endAll('shutdown');
    if (this.#pending.count > 0) this.#log.warn({ requests: this.#pending.count }, 'requests were cut off by the end of the drain');
    await this.#connections.closed(Math.min(deadline_ms, LINGER_MS));
    this.#app.close();
    this.streams?.stop();
    this.#pending.stop();
    this.cork.close();
  }

  /** Everything of `req` is read in here, before the first wait. */
  #handle(res: HttpResponse, req: HttpRequest, context: us_socket_context_t | null = null): void {
    const x = new Exchange(this, res, req, context);
    const found = this.#router.find(req.getUrl());
    if (this.#tracing !== null) this.#trace(this.#tracing, x, req, found);
    if (found === null) return x.answer(refusal(new ApiError('not_found')));
    const method = req.getCaseSensitiveMethod();
    if (method === 'OPTIONS') return x.answer({ status: 204, body: null, headers: { Allow: allowed(found.methods) } });
    const endpoint = found.methods.get(x.head ? 'GET' : method);
    if (endpoint === undefined) {
      const allow = allowed(found.methods);
      return x.answer(refusal(new ApiError('method_not_allowed', { allow: allow.split(', ') }), { Allow: allow }));
    }
    x.route = endpoint.name;
    if (this.draining && !endpoint.while_draining) return x.answer(refusal(draining()));
    const place = this.#pending.add(x);
    void this.#run(x, place, endpoint.serve(x, req, found.params));
  }

  /** Also what is refused, and what no route takes: whoever called sees that it came here. */
  #trace(tracing: RequestTracing, x: Exchange, req: HttpRequest, found: Match<Named> | null): void {
    const [first] = found?.methods.values() ?? [];
    if (first?.template === null) return;
    x.span = beginSpan(tracing, req, { route: first?.template ?? null, request_id: x.request_id, started_ms: x.now_ms });
  }

  async #run(x: Exchange, place: Place<Exchange>, serving: Promise<Reply | null>): Promise<void> {
    try {
      const reply = await serving;
      if (reply !== null) x.answer(reply);
    } catch (error) {
      x.answer(refusal(this.#judge(x, error)));
    } finally {
      x.release();
      this.#pending.remove(place);
    }
  }

  #judge(x: Exchange, error: unknown): ApiError {
    if (error instanceof ApiError) return error;
    const { route, request_id } = x;
    if (isUnavailable(error)) {
      this.#log.warn({ err: error, route, request_id }, 'the store could not serve a request');
      return new ApiError('unavailable', {}, { retry_after_s: 1 });
    }
    this.#log.error({ err: error, route, request_id }, 'a request failed on our side');
    return new ApiError('internal_error', { request_id });
  }
}

/** The native code only says that it could not; node:net, asked for the same, says why. */
async function whyNot(host: string, port: number): Promise<string> {
  const probe = createServer();
  const reason = await new Promise<string>((resolve) => {
    probe.once('error', (error: NodeJS.ErrnoException) => resolve(error.code === 'EADDRINUSE' ? 'the port is in use' : error.message));
    probe.listen({ host, port, exclusive: true }, () => resolve('the socket was refused'));
  });
  probe.close();
  return reason;
}
