// Writes requests: our headers, the signature, the caller's headers, the body.
import type { Client, Dispatcher } from 'undici';
import type { Clock } from '../base/clock.ts';
import type { OutboundCall } from './call.ts';
import type { Signer } from './signer.ts';

/** undici copies both the options and the headers while `dispatch` runs, so one of each serves every request. */
export class RequestWriter {
  readonly #now: Clock;
  readonly #signer: Signer;
  readonly #user_agent: string;
  readonly #headers: string[] = [];
  readonly #options: Dispatcher.DispatchOptions;
  #timestamp_s = 0;
  #timestamp = '0';

  constructor(now: Clock, signer: Signer, version: string) {
    this.#now = now;
    this.#signer = signer;
    this.#user_agent = `Sluice/${version}`;
    // `blocking` only matters to pipelining, and costs a pass through the client's queue for every answer.
    this.#options = { path: '/', method: 'POST', headers: this.#headers, body: null, blocking: false };
  }

  dispatch(client: Client, call: OutboundCall, handler: Dispatcher.DispatchHandler): void {
    const body = call.method === 'GET' || call.method === 'HEAD' ? null : call.body;
    const options = this.#options;
    options.path = call.path;
    options.method = call.method;
    options.body = body;
    this.#fill(call, body);
    client.dispatch(options, handler);
    options.body = null;
  }

  #fill(call: OutboundCall, body: Buffer | null): void {
    const headers = this.#headers;
    const timestamp = this.#unixSeconds();
    let n = 0;
    headers[n++] = 'user-agent';
    headers[n++] = this.#user_agent;
    if (body !== null) {
      headers[n++] = 'content-type';
      headers[n++] = 'application/json';
    }
    headers[n++] = 'webhook-id';
    headers[n++] = call.webhook_id;
    headers[n++] = 'webhook-timestamp';
    headers[n++] = timestamp;
    if (call.secrets.length > 0) {
      headers[n++] = 'webhook-signature';
      headers[n++] = this.#signer.sign(call.webhook_id, timestamp, body, call.secrets);
    }
    headers[n++] = 'x-sluice-attempt';
    headers[n++] = String(call.attempt);
    if (call.batch_id !== null) {
      headers[n++] = 'x-sluice-batch-id';
      headers[n++] = call.batch_id;
    }
    for (const part of call.headers) headers[n++] = part;
    headers.length = n;
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
