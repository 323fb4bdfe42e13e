// The client: everything that the API can do, typed, with repetitions that are safe. Needs nothing but fetch, so it runs in
// Node and in browsers.
//
//   const sluice = createClient({ base_url: 'http://127.0.0.1:8080', token });
//   const batch = await sluice.createBatch({ tasks: [{ target: 'https://example.com/hook', payload: { n: 1 } }] });
//   for await (const frame of sluice.watch(batch.id)) console.log(frame);
import type { TaskOutcome } from '../schema/types.gen.ts';
import { LISTS, type Lists, OPERATIONS, type Operations } from './operations.gen.ts';
import { type ResultsOptions, resultsOf } from './results.ts';
import { type CallOptions, Transport, type TransportOptions } from './transport.ts';
import { type Frame, type WatchOptions, watchBatch } from './watch.ts';

export type * from '../schema/types.gen.ts';
export type { Lists, Operations } from './operations.gen.ts';
export type { ResultsOptions } from './results.ts';
export { type CallOptions, SluiceError, type TransportOptions } from './transport.ts';
export type { Frame, WatchOptions } from './watch.ts';
export { type VerifyOptions, verifyWebhook } from './webhook.ts';

export interface Client extends Operations, Lists {
  /** How the tasks of a batch ended, in the order of their creation; answers that break off go on where they did. */
  results(batch_id: string, options?: ResultsOptions): AsyncGenerator<TaskOutcome, void, undefined>;
  /** Frames of a batch until it has finished; connections that break are opened again. */
  watch(batch_id: string, options?: WatchOptions): AsyncGenerator<Frame, void, undefined>;
}

export function createClient(options: TransportOptions): Client {
  const transport = new Transport(options);
  const names = Object.keys(OPERATIONS) as (keyof Operations)[];
  const methods = names.map((name) => [name, (...args: unknown[]) => transport.call(OPERATIONS[name], args)]);
  const operations = Object.fromEntries(methods) as Operations;
  const list_names = Object.keys(LISTS) as (keyof Lists)[];
  const lists = list_names.map((name) => [name, (...args: unknown[]) => itemsOf(transport, name, args)]);
  return {
    ...operations,
    ...(Object.fromEntries(lists) as Lists),
    results: (batch_id, results_options) => resultsOf(transport, batch_id, results_options),
    watch: (batch_id, watch_options) => watchBatch(transport, operations.createStreamTicket, batch_id, watch_options),
  };
}

const PAGE_SIZE = 500;
/** As far as lists without cursors go. */
const OFFSET_MAX = 100_000;

type Page = { total: number; next_cursor?: string | null } & Record<(typeof LISTS)[keyof Lists]['key'], readonly unknown[]>;

async function* itemsOf(transport: Transport, name: keyof Lists, args: readonly unknown[]): AsyncGenerator<unknown, void, undefined> {
  const { list, key, ids, by } = LISTS[name];
  const [query, options] = args.slice(ids) as [object | undefined, CallOptions | undefined];
  const page = (place: object): Promise<Page> =>
    transport.call(OPERATIONS[list], [...args.slice(0, ids), { ...query, limit: PAGE_SIZE, ...place }, options]) as Promise<Page>;
  if (by === 'cursor') {
    for (let cursor: string | null = ''; cursor !== null; ) {
      const { [key]: found, next_cursor = null }: Page = await page({ cursor });
      yield* found;
      cursor = next_cursor;
    }
    return;
  }
  for (let offset = 0; ; ) {
    const { [key]: found, total } = await page({ offset });
    yield* found;
    offset += found.length;
    if (offset >= total || found.length === 0) return;
    if (offset > OFFSET_MAX) throw new RangeError(`This list goes no further than ${OFFSET_MAX} items, and has ${total}. Narrow it down.`);
  }
}
