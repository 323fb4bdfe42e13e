// Progress streams: tickets, and who may open one.
import { randomBytes } from 'node:crypto';
import { ApiError } from '../base/errors.ts';
import { ID_PREFIX, parseId } from '../base/id.ts';
import type { StreamQuery } from '../schema/types.gen.ts';
import { type Holder, type PlaceOutcome, takePlace, writeTicket } from '../store/streams.ts';
import type { Answer, Call } from './call.ts';
import type { ApiContext } from './context.ts';
import { timestamp } from './present.ts';

const TICKET_PREFIX = 'stk_';
const TICKET = new RegExp(`^${TICKET_PREFIX}[A-Za-z0-9_-]{43}$`);
/** When a place becomes free nobody knows. */
const FULL_RETRY_S = 5;

export async function createStreamTicket(context: ApiContext, call: Call): Promise<Answer> {
  const ticket = TICKET_PREFIX + randomBytes(32).toString('base64url');
  const ends_ms = await writeTicket(context.client, { account_id: call.account_id, token: call.token }, coreOf(call), ticket);
  if (ends_ms === null) throw missing(call);
  return { body: { ticket, expires_at: timestamp(ends_ms) } };
}

/** Takes a place among the streams of a batch. Throws 401, 404 and 429. */
export async function openStream(context: ApiContext, call: Call): Promise<Answer> {
  const stream = streamsOf(context).newName();
  const { account_id, token } = await takeOrTell(context, call, stream);
  const { tasks } = call.query as unknown as StreamQuery;
  return { body: null, stream: { account_id, grant: { stream, core: coreOf(call), tasks }, token } };
}

/** Whether there is a place: takes none, and leaves a ticket as it is. */
export async function streamable(context: ApiContext, call: Call): Promise<void> {
  await takeOrTell(context, call, null);
}

async function takeOrTell(context: ApiContext, call: Call, stream: string | null): Promise<Holder> {
  const places = streamsOf(context);
  if (call.ticket !== null && !TICKET.test(call.ticket)) throw new ApiError('unauthorized');
  const by = call.ticket === null ? { account_id: call.account_id, token: call.token } : { ticket: call.ticket };
  const outcome: PlaceOutcome = await takePlace(context.client, coreOf(call), by, stream, places);
  switch (outcome.kind) {
    case 'taken':
      return outcome;
    case 'unknown':
      throw new ApiError('unauthorized');
    case 'missing':
      throw missing(call);
    case 'full':
      throw new ApiError(
        'rate_limited',
        { policy: 'streams', limit: places.max },
        { message: 'This batch has as many open streams as it may have.', retry_after_s: FULL_RETRY_S },
      );
  }
}

function streamsOf(context: ApiContext): NonNullable<ApiContext['streams']> {
  if (context.streams !== null) return context.streams;
  throw new ApiError('unavailable', {}, { message: 'This process serves no streams.', retry_after_s: FULL_RETRY_S });
}

function coreOf(call: Call): string {
  return parseId(ID_PREFIX.batch, call.params['batch_id'] ?? '') ?? '';
}

function missing(call: Call): ApiError {
  return new ApiError('batch_not_found', { batch_id: call.params['batch_id'] });
}
