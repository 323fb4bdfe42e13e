// The client: everything that the API can do, typed, with repetitions that are safe. Needs nothing but fetch, so it runs in
// Node and in browsers.
//
//   const sluice = createClient({ base_url: 'http://127.0.0.1:8080', token });
//   const batch = await sluice.createBatch({ tasks: [{ target: 'https://example.com/hook', payload: { n: 1 } }] });
//   for await (const frame of sluice.watch(batch.id)) console.log(frame);
import { OPERATIONS, type Operations } from './operations.gen.ts';
import { Transport, type TransportOptions } from './transport.ts';
import { type Frame, type WatchOptions, watchBatch } from './watch.ts';

export type * from '../schema/types.gen.ts';
export type { Operations } from './operations.gen.ts';
export { type CallOptions, SluiceError, type TransportOptions } from './transport.ts';
export type { BatchProgress, Frame, WatchOptions } from './watch.ts';
export { type VerifyOptions, verifyWebhook } from './webhook.ts';

export interface Client extends Operations {
  /** Frames of a batch until it has finished; connections that break are opened again. */
  watch(batch_id: string, options?: WatchOptions): AsyncGenerator<Frame, void, undefined>;
}

export function createClient(options: TransportOptions): Client {
  const transport = new Transport(options);
  const names = Object.keys(OPERATIONS) as (keyof Operations)[];
  const methods = names.map((name) => [name, (...args: unknown[]) => transport.call(OPERATIONS[name], args)]);
  const operations = Object.fromEntries(methods) as Operations;
  return {
    ...operations,
    watch: (batch_id, watch_options) => watchBatch(transport, ticketFor, batch_id, watch_options),
  };

  async function ticketFor(batch_id: string): Promise<string> {
    return (await operations.createStreamTicket(batch_id)).ticket;
  }
}

/** A page as lists take it. */
export interface Page {
  limit: number;
  offset: number;
}

const PAGE_SIZE = 500;
/** As far as lists go. */
const OFFSET_MAX = 100_000;

/**
 * All items of a list, page by page: `for await (const batch of items((page) => sluice.listBatches({ status: 'failed', ...page }), 'batches'))`.
 * A list that grows meanwhile moves on: an item may come twice.
 */
export async function* items<K extends string, T>(
  list: (page: Page) => Promise<{ total: number } & Record<K, readonly T[]>>,
  key: K,
): AsyncGenerator<T, void, undefined> {
  for (let offset = 0; offset <= OFFSET_MAX; offset += PAGE_SIZE) {
    const page = await list({ limit: PAGE_SIZE, offset });
    yield* page[key];
    if (offset + page[key].length >= page.total || page[key].length === 0) return;
  }
}
