// Writes requests: our headers, the signature, the caller's headers, the body.
import type { Client, Dispatcher } from 'undici';
import type { Clock } from '../base/clock.ts';
import type { OutboundCall } from './call.ts';
import type { Signer } from './signer.ts';
import { headersOf } from './undici.ts';

/** undici copies the options while `dispatch` runs, so one of them serves every request. */
export class RequestWriter {
  readonly #now: Clock;
  readonly #signer: Signer;
  readonly #user_agent: string;
  readonly #options: Dispatcher.DispatchOptions;
  #timestamp_s = 0;
  #timestamp = '0';

  constructor(now: Clock, signer: Signer, version: string) {
    this.#now = now;
    this.#signer = signer;
    this.#user_agent = `Sluice/${version}`;
    // `blocking` only matters to pipelining, and costs a pass through the client's queue for every answer.
    this.#options = { path: '/', method: 'POST', headers: null, body: null, blocking: false };
  }

  /** With the caller's headers, which undici checks; ours come when it is written. */
  dispatch(client: Client, call: OutboundCall, handler: Dispatcher.DispatchHandler): void {
    const options = this.#options;
    options.path = call.path;
    options.method = call.method;
    options.body = bodyOf(call);
    options.headers = call.headers.length === 0 ? null : (call.headers as string[]);
    client.dispatch(options, handler);
    options.body = null;
    options.headers = null;
  }

  /** Ours, to the request that `client` is about to write; signed at this moment. They need no check: none has a character from outside. */
  addHeaders(client: Client, call: OutboundCall): void {
    const headers = headersOf(client);
    const body = bodyOf(call);
    const timestamp = this.#unixSeconds();
    headers.push('user-agent', this.#user_agent);
    if (body !== null) headers.push('content-type', 'application/json');
    headers.push('webhook-id', call.webhook_id, 'webhook-timestamp', timestamp);
    if (call.secrets.length > 0) headers.push('webhook-signature', this.#signer.sign(call.webhook_id, timestamp, body, call.secrets));
    headers.push('x-sluice-attempt', String(call.attempt));
    if (call.batch_id !== null) headers.push('x-sluice-batch-id', call.batch_id);
  }

  #unixSeconds(): string {
    const now_s = Math.floor(this.#now() / 1000);
    if (now_s !== this.#timestamp_s) {
      this.#timestamp_s = now_s;
      this.#timestamp = String(now_s);
    }
    return this.#timestamp;
  }
}

function bodyOf({ method, body }: OutboundCall): Buffer | null {
  return method === 'GET' || method === 'HEAD' ? null : body;
}
