// One request to an endpoint of the API, through the checks of the contract in their order:
//
//   (404 path, 405: serve.ts)  401  403  404 of the resource  429  415  413  400 JSON  400 fields  409, 422
//
// Everything that the headers tell is read before the first wait. The body comes in while the earlier checks run, but
// nothing is said about it before they are done.
import type { Answer, Api, Call, QuotaVerdict } from '../api/call.ts';
import { ApiError, type ErrorName, type Fault } from '../base/errors.ts';
import { ID_PREFIX, parseId, parseTaskId } from '../base/id.ts';
import { readTraceContext, type TraceContext } from '../base/trace-context.ts';
import { FAULTS_MAX } from '../schema/faults.ts';
import { BODY_JSON, parseJson } from '../schema/json.ts';
import { parseQuery } from '../schema/query.ts';
import { bodyFaults } from '../schema/task-rules.ts';
import { EVENTS_TYPE, JSON_TYPE, LINES_TYPE, quotaHeaders, type Reply } from './answer.ts';
import { type Authenticator, allows, type Principal } from './auth.ts';
import type { BodyReader } from './body.ts';
import type { BodyStream } from './body-stream.ts';
import type { Exchange } from './exchange.ts';
import type { Resource, Route } from './routes.ts';
import type { Streams } from './streams.ts';
import type { HttpRequest } from './uws.ts';

/** Decides an API limit on the headers of a request; null where it has none. `call.body` is null. */
export type Quota = (route: Route, call: Call) => Promise<QuotaVerdict | null> | null;

export interface EndpointHost {
  readonly auth: Authenticator;
  readonly precheck: NonNullable<Api['precheck']>;
  readonly quota: Quota | null;
  readonly max_body_bytes: number;
  /** null: no streams are served. */
  readonly streams: Streams | null;
}

interface Head {
  authorization: string;
  content_type: string;
  content_encoding: string;
  idempotency_key: string | null;
  traceparent: string;
  tracestate: string;
  query: string;
}

/** A body that may only be `{}` needs no more. */
const IGNORED_BODY_BYTES_MAX = 1024;
const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/;
/** Whoever has a ticket may read; whose it is, the work itself finds out. */
const BY_TICKET: Principal = { account: '', account_id: '', scope: 'read', token: null };
const PARAMETER: Record<Resource, { name: string; error: ErrorName; isId(text: string): boolean }> = {
  batch: { name: 'batch_id', error: 'batch_not_found', isId: (text) => parseId(ID_PREFIX.batch, text) !== null },
  limiter: { name: 'rate_limiter_id', error: 'limiter_not_found', isId: (text) => parseId(ID_PREFIX.limiter, text) !== null },
  task: { name: 'task_id', error: 'task_not_found', isId: (text) => parseTaskId(text) !== null },
  schedule: { name: 'schedule_id', error: 'schedule_not_found', isId: (text) => parseId(ID_PREFIX.schedule, text) !== null },
};

/** The answer; null where the client is gone or was answered already. `req` is read before the first wait only. */
export async function serveRoute(
  host: EndpointHost,
  x: Exchange,
  req: HttpRequest,
  route: Route,
  params: Record<string, string>,
): Promise<Reply | null> {
  const head = readHead(req, route);
  const lines = route.lines === true && isType(head, LINES_TYPE);
  const reader = lines ? null : startReading(host, x, route, head);
  const pieces = lines ? x.readPieces() : null;
  // Waits only where there is something to wait for: each wait that is none costs as much as a check.
  const admitted = admit(host, x, route, params, head);
  const call = admitted instanceof Promise ? await admitted : admitted;
  try {
    if (lines) call.lines = piecesOf(x, pieces);
    else refuseByHeaders(host, x, route, head);
    const body = reader === null ? null : await wholeBody(host, x, reader, route);
    if (x.done) return null;
    readInput(call, route, head, body);
    if (route.stream === 'websocket' && x.upgrade_head === null) throw invalid([NO_UPGRADE]);
  } catch (error) {
    // What takes no body finds its resource in the one step of its work; only where something else is wrong it is asked for before.
    if (route.body === null) applyQuota(x, (await byTicket(host, x, call, (checked) => precheck(host, route, checked))) ?? null);
    throw error;
  }
  if ((route.stream !== undefined || route.reply_lines === true) && x.head) {
    applyQuota(x, (await byTicket(host, x, call, (checked) => precheck(host, route, checked))) ?? null);
    return { status: 200, body: '', unsized: true, type: route.stream === undefined ? LINES_TYPE : EVENTS_TYPE };
  }
  const answer = await (call.ticket === null
    ? run(host, route, call)
    : byTicket(host, x, call, (checked) => runByTicket(host, route, checked)));
  if (answer?.blocks !== undefined) {
    if (answer.quota !== undefined) applyQuota(x, answer.quota);
    const type = route.reply_lines === true ? LINES_TYPE : JSON_TYPE;
    if (x.head) return { status: 200, body: '', unsized: true, type };
    await x.sendBlocks(answer.blocks, type);
    return null;
  }
  if (answer?.stream === undefined || route.stream === undefined) return answer === undefined ? null : toReply(x, route, answer);
  x.account_id = answer.stream.account_id;
  host.streams?.begin(x, route.stream, answer.stream.grant, answer.stream.token);
  return null;
}

/** Takes as long as it takes: who sends too slowly is cut off by the parser, and Redis has timeouts of its own. */
function piecesOf(x: Exchange, pieces: BodyStream | null): () => Promise<Buffer | null> {
  if (pieces === null) throw noRoom();
  x.holdDeadline();
  return () => pieces.pull();
}

/** 404 of the resource in the path; the limit that was used, where the endpoint would have told it with its answer. */
async function precheck(host: EndpointHost, route: Route, call: Call): Promise<QuotaVerdict | null> {
  const used = await host.precheck[route.name]?.(call);
  return used ? used : null;
}

/** A key that was used for another request is told only where the resource in the path is there. */
async function run(host: EndpointHost, route: Route, call: Call): Promise<Answer> {
  try {
    return await route.run(call);
  } catch (error) {
    if (error instanceof ApiError && error.row === 'idempotency_key_reused' && route.body === null) await precheck(host, route, call);
    throw error;
  }
}

/** A ticket is as good as the token that it was made with. */
async function runByTicket(host: EndpointHost, route: Route, call: Call): Promise<Answer> {
  const answer = await route.run(call);
  const { stream } = answer;
  if (stream === undefined || stream.token === null || (await host.auth.holds(stream.token).catch(() => true))) return answer;
  host.streams?.giveBack(stream.grant);
  throw new ApiError('unauthorized');
}

/** Runs what may find that a ticket is bad; those are counted as bad tokens are. */
async function byTicket<T>(
  host: EndpointHost,
  x: Exchange,
  call: Call,
  run: ((call: Call) => Promise<T>) | undefined,
): Promise<T | undefined> {
  if (call.ticket === null) return run?.(call);
  // The socket may be gone when the answer comes, and with it its address.
  const from = x.address();
  host.auth.refuseFlood(from);
  try {
    return await run?.(call);
  } catch (error) {
    throw error instanceof ApiError && error.row === 'unauthorized' ? host.auth.unknown(from) : error;
  }
}

function readHead(req: HttpRequest, { traced, method }: Route): Head {
  const traceparent = traced === true ? req.getHeader('traceparent') : '';
  return {
    authorization: req.getHeader('authorization'),
    content_type: req.getHeader('content-type'),
    content_encoding: req.getHeader('content-encoding'),
    idempotency_key: method === 'POST' ? headerOf(req, 'idempotency-key') : null,
    traceparent,
    // Says nothing without the other.
    tracestate: traceparent === '' ? '' : req.getHeader('tracestate'),
    query: req.getQuery() ?? '',
  };
}

/** null where there is none: an empty one is one. */
function headerOf(req: HttpRequest, name: string): string | null {
  const value = req.getHeader(name);
  if (value !== '') return value;
  let given: string | null = null;
  req.forEach((one) => {
    if (one === name) given = '';
  });
  return given;
}

/** null where there is no body, or where the headers tell that it will not be needed: then it is swallowed unseen. */
function startReading(host: EndpointHost, x: Exchange, route: Route, head: Head): BodyReader | null {
  if (x.announced_bytes === 0 || route.method === 'GET') return null;
  if ((x.announced_bytes ?? 0) > host.max_body_bytes) return null;
  if (route.body === null) return x.read(Math.min(IGNORED_BODY_BYTES_MAX, host.max_body_bytes));
  return isType(head, JSON_TYPE) ? x.read(host.max_body_bytes) : null;
}

/** 401, 403, 404 and 429. */
function admit(host: EndpointHost, x: Exchange, route: Route, params: Record<string, string>, head: Head): Call | Promise<Call> {
  const ticket = route.stream === undefined || head.authorization !== '' ? null : new URLSearchParams(head.query).get('ticket');
  const principal = ticket === null ? host.auth.check(head.authorization, () => x.address()) : BY_TICKET;
  const known = (who: Principal): Call | Promise<Call> => admitKnown(host, x, route, params, head, ticket, who);
  if (!(principal instanceof Promise)) return known(principal);
  // Nobody unknown fills our memory: the body waits in the socket.
  x.pause();
  return principal.finally(() => x.resume()).then(known);
}

/** 403, 404 and 429. */
function admitKnown(
  host: EndpointHost,
  x: Exchange,
  route: Route,
  params: Record<string, string>,
  head: Head,
  ticket: string | null,
  principal: Principal,
): Call | Promise<Call> {
  x.account_id = ticket === null ? principal.account_id : null;
  if (!allows(principal.scope, route.scope)) throw new ApiError('forbidden', { scope: principal.scope, required: route.scope });
  if (route.resource !== null) {
    const { name, error, isId } = PARAMETER[route.resource];
    // No ticket is one for what cannot be.
    if (!isId(params[name] ?? ''))
      throw ticket !== null ? host.auth.refused(() => x.address()) : new ApiError(error, { [name]: params[name] });
  }
  const call: Call = {
    account: principal.account,
    account_id: principal.account_id,
    params,
    query: {},
    body: null,
    raw_body: null,
    lines: null,
    head_faults: [],
    request_id: x.request_id,
    idempotency_key: null,
    trace: traceOf(x, route, head),
    ticket,
    token: principal.token,
    now_ms: x.now_ms,
    abandoned: () => x.abandoned,
  };
  const precheck = route.body === null ? undefined : host.precheck[route.name];
  if (precheck !== undefined) return precheck(call).then(() => withinQuota(host, x, route, call));
  return withinQuota(host, x, route, call);
}

function withinQuota(host: EndpointHost, x: Exchange, route: Route, call: Call): Call | Promise<Call> {
  const asked = route.quota === null || host.quota === null ? null : host.quota(route, call);
  if (asked === null) return call;
  return asked.then((verdict) => {
    applyQuota(x, verdict);
    return call;
  });
}

/** What the work of a request goes on with: the span of the request, where there is one, else what its caller said. */
function traceOf(x: Exchange, route: Route, { traceparent, tracestate }: Head): TraceContext | null {
  if (route.traced !== true) return null;
  return x.span === null ? readTraceContext(traceparent, tracestate) : x.span.context;
}

function applyQuota(x: Exchange, verdict: QuotaVerdict | null): void {
  if (verdict === null) return;
  Object.assign(x.headers, quotaHeaders(verdict));
  if (verdict.granted) return;
  const details = { policy: verdict.policy, limit: verdict.limit, window_seconds: verdict.window_s };
  throw new ApiError('rate_limited', details, { retry_after_s: verdict.reset_s });
}

/** 415, and 413 where Content-Length tells. */
function refuseByHeaders(host: EndpointHost, x: Exchange, route: Route, head: Head): void {
  if (route.method === 'GET') return;
  if (x.announced_bytes !== 0 && !isType(head, JSON_TYPE)) throw new ApiError('unsupported_media_type');
  if ((x.announced_bytes ?? 0) > host.max_body_bytes) throw tooLarge(host);
}

/** Of this type, as UTF-8 where a charset is named, and not compressed. */
function isType({ content_type, content_encoding }: Head, wanted: string): boolean {
  if (content_encoding !== '' && content_encoding.toLowerCase() !== 'identity') return false;
  if (content_type === wanted) return true;
  const [type = '', ...parameters] = content_type.toLowerCase().split(';');
  if (type.trim() !== wanted) return false;
  return parameters.every((parameter) => !/^\s*charset\s*=/.test(parameter) || /^\s*charset\s*=\s*"?utf-?8"?\s*$/.test(parameter));
}

function tooLarge(host: EndpointHost): ApiError {
  return new ApiError('payload_too_large', { max_body_bytes: host.max_body_bytes });
}

/** The time for an answer starts again when the body is there. null: the client went away. */
async function wholeBody(host: EndpointHost, x: Exchange, reader: BodyReader, route: Route): Promise<Buffer | null> {
  x.holdDeadline();
  const outcome = await reader.outcome;
  x.restartDeadline(outcome.ok ? outcome.body.length : 0);
  if (outcome.ok) return outcome.body;
  if (outcome.reason === 'aborted') return null;
  if (outcome.reason === 'no_room') throw noRoom();
  throw route.body === null ? invalid([NO_BODY]) : tooLarge(host);
}

function noRoom(): ApiError {
  return new ApiError('unavailable', {}, { message: 'Too many request bodies are being read.', retry_after_s: 1 });
}

const NO_FIELDS = Buffer.from('{}');
const NO_UPGRADE: Fault = { path: 'Upgrade', message: 'must be websocket, with the other headers of a WebSocket handshake' };
const NO_BODY: Fault = { path: '', message: 'this endpoint takes no body' };

/** A body of no fields says as much as none. */
function noFields(value: unknown): readonly Fault[] {
  const empty = typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length === 0;
  return empty ? [] : [NO_BODY];
}

/** 400: puts body, query and Idempotency-Key into the call, or reports all that is wrong with them; see `reads_body`. */
function readInput(call: Call, route: Route, head: Head, body: Buffer | null): void {
  const faults: Fault[] = [];
  call.raw_body = route.body === null ? null : body;
  if (route.body !== null && route.reads_body !== true) {
    const parsed = parseJson(body ?? (route.body_optional === true ? NO_FIELDS : Buffer.alloc(0)), BODY_JSON);
    if (!parsed.ok) throw new ApiError('invalid_json', {}, { message: parsed.message });
    call.body = parsed.value;
    faults.push(...bodyFaults(route.body, parsed.value, call.now_ms));
  } else if (route.body !== null) {
    call.head_faults = faults;
  } else if (body !== null && body.length > 0) {
    const parsed = parseJson(body, BODY_JSON);
    if (!parsed.ok) throw new ApiError('invalid_json', {}, { message: parsed.message });
    faults.push(...noFields(parsed.value));
  }
  if (route.query !== null || head.query !== '') {
    const parsed = parseQuery(route.query, head.query);
    if (parsed.ok) call.query = { ...parsed.value };
    else faults.push(...parsed.faults);
  }
  if (head.idempotency_key !== null) {
    if (IDEMPOTENCY_KEY.test(head.idempotency_key)) call.idempotency_key = head.idempotency_key;
    else faults.push({ path: 'Idempotency-Key', message: 'must be 1 to 255 visible ASCII characters' });
  }
  if (faults.length > 0 && route.reads_body !== true) throw invalid(faults);
}

function invalid(faults: readonly Fault[]): ApiError {
  return new ApiError('validation_error', { errors: faults.slice(0, FAULTS_MAX) });
}

function toReply(x: Exchange, route: Route, answer: Answer): Reply {
  if (answer.quota !== undefined) applyQuota(x, answer.quota);
  const reply: Reply = {
    status: answer.status ?? route.status,
    body: Buffer.isBuffer(answer.body) ? answer.body : JSON.stringify(answer.body),
  };
  if (answer.headers !== undefined) reply.headers = answer.headers;
  return reply;
}
