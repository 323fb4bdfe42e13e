// One call of the API: its address, its body, its retries, its error.
//
// A call is repeated where the network failed or the service asks for it (429, 503 with Retry-After). That is safe for every
// method: a POST carries an Idempotency-Key, made here where the caller gives none, so that it happens once.

export interface CallOptions {
  /** Makes a repeated POST the same one; 1 to 255 visible ASCII characters. Default: a random one for each call. */
  idempotency_key?: string;
  signal?: AbortSignal;
  /** W3C Trace Context: goes on with the callbacks of the tasks that are made. A fetch that is instrumented sends its own. */
  traceparent?: string;
  /** Sent in place of the body, as it is: JSON already. The body argument is not looked at. */
  raw_body?: Uint8Array<ArrayBuffer>;
}

export interface Operation {
  method: string;
  /** Parameters in braces. */
  path: string;
  input: 'body' | 'query' | null;
}

export interface TransportOptions {
  /** Where the service is, as in `http://127.0.0.1:8080`; '' in a page that it serves itself. */
  base_url: string;
  token: string;
  /** Default: the global one. */
  fetch?: typeof fetch;
  /** Repetitions of one call, default 4. */
  retries_max?: number;
}

/** What the service refused: its error envelope. */
export class SluiceError extends Error {
  override readonly name = 'SluiceError';
  readonly status: number;
  /** As in the list of error codes: `validation_error`, `batch_not_found`, … */
  readonly code: string;
  readonly details: Record<string, unknown>;
  readonly request_id: string | null;
  /** Seconds to wait before it is asked again, where it said so. */
  readonly retry_after_s: number | null;

  constructor(status: number, body: unknown, request_id: string | null, retry_after_s: number | null = null) {
    const { code = 'unknown', message = `The answer was ${status}.`, details = {} } = envelopeOf(body);
    super(message);
    this.status = status;
    this.code = code;
    this.details = details;
    this.request_id = request_id;
    this.retry_after_s = retry_after_s;
  }
}

interface Envelope {
  code?: string;
  message?: string;
  details?: Record<string, unknown>;
}

const RETRIES_MAX = 4;
const BACKOFF_MS = 250;
const BACKOFF_MS_MAX = 10_000;
const RETRY_AFTER_S_MAX = 60;

export class Transport {
  readonly base_url: string;
  readonly #token: string;
  readonly #fetch: typeof fetch;
  readonly #retries_max: number;

  constructor({ base_url, token, fetch: given, retries_max = RETRIES_MAX }: TransportOptions) {
    this.base_url = base_url.replace(/\/+$/, '');
    this.#token = token;
    this.#fetch = given ?? ((...args) => fetch(...args));
    this.#retries_max = retries_max;
  }

  /** Resolves with the body of the answer; rejects with a SluiceError, or with what fetch threw when no repetition is left. */
  async call(operation: Operation, args: readonly unknown[]): Promise<unknown> {
    const { url, input, options } = readArguments(operation, args);
    const query = operation.input === 'query' ? queryOf(input as Record<string, unknown> | undefined) : '';
    const headers: Record<string, string> = {};
    if (operation.method === 'POST') headers['Idempotency-Key'] = options.idempotency_key ?? crypto.randomUUID();
    if (options.traceparent !== undefined) headers['traceparent'] = options.traceparent;
    let body: string | Uint8Array<ArrayBuffer> | null = null;
    if (operation.input === 'body') {
      headers['Content-Type'] = 'application/json';
      body = options.raw_body ?? JSON.stringify(input ?? {});
    }
    const init = { method: operation.method, headers, body, signal: options.signal ?? null };
    for (let tries = 0; ; tries++) {
      try {
        const response = await this.send(url + query, init);
        const text = await response.text();
        if (!response.ok) throw refusalOf(response, text);
        return JSON.parse(text);
      } catch (error) {
        await this.pause(error, tries, options.signal);
      }
    }
  }

  /** Opens an answer that is read as it comes. Rejects with a SluiceError where it is a refusal. */
  async open(path: string, signal: AbortSignal | undefined): Promise<Response> {
    const response = await this.send(path, { signal: signal ?? null });
    if (!response.ok) throw refusalOf(response, await response.text());
    return response;
  }

  /** Resolves when it is time to try again after so many tries that were in vain before; rejects with the error where that is of no use. */
  async pause(error: unknown, tries: number, signal: AbortSignal | undefined): Promise<void> {
    // What is no JSON did not come from the service.
    if (tries >= this.#retries_max || signal?.aborted === true || error instanceof SyntaxError) throw error;
    const asked_ms = error instanceof SluiceError ? retryAfterMs(error, tries) : 0;
    if (asked_ms === null) throw error;
    await wait(Math.max(asked_ms, backoffMs(tries)), signal);
  }

  /** One request with the token, its answer as it came. */
  send(path: string, init: RequestInit): Promise<Response> {
    return this.#fetch(this.base_url + path, { ...init, headers: { ...init.headers, Authorization: `Bearer ${this.#token}` } });
  }
}

function readArguments({ path, input }: Operation, args: readonly unknown[]): { url: string; input: unknown; options: CallOptions } {
  const left = [...args];
  const url = path.replace(/\{\w+\}/g, () => encodeURIComponent(String(left.shift())));
  return { url, input: input === null ? undefined : left.shift(), options: (left.shift() as CallOptions | undefined) ?? {} };
}

function queryOf(query: Record<string, unknown> = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  return given.length === 0 ? '' : `?${new URLSearchParams(given.map(([name, value]): [string, string] => [name, String(value)]))}`;
}

/** Milliseconds that the service asks to wait, null where its answer is final. */
function retryAfterMs({ status, code, retry_after_s }: SluiceError, tries: number): number | null {
  // A conflict is with our own try before, of which the answer was lost.
  if (code === 'idempotency_conflict' && tries > 0) return Math.min(retry_after_s ?? 0, RETRY_AFTER_S_MAX) * 1_000;
  return status === 429 || status === 503 ? Math.min(retry_after_s ?? 1, RETRY_AFTER_S_MAX) * 1_000 : null;
}

/** Within [d/2, d] of a delay d that doubles. */
function backoffMs(tries: number): number {
  return Math.min(BACKOFF_MS_MAX, BACKOFF_MS * 2 ** tries) * (0.5 + Math.random() / 2);
}

/** What an answer that is no success says. */
export function refusalOf({ status, headers }: Response, text: string): SluiceError {
  return new SluiceError(status, readJson(text), headers.get('x-request-id'), Number(headers.get('retry-after')) || null);
}

/** Rejects with the reason of `signal`. */
export function wait(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((done, fail) => {
    const onAbort = (): void => {
      clearTimeout(timer);
      fail(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort);
      done();
    }, ms);
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function envelopeOf(body: unknown): Envelope {
  if (typeof body !== 'object' || body === null || !('error' in body)) return {};
  return (body.error ?? {}) as Envelope;
}
