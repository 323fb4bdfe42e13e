// Idempotency-Key: the same request again gets the first answer again, whatever died in between.
//
// What creates writes its record in the same script as the resource, in the key's own partition; so does adding tasks,
// beside the batch. Cancel, release and retry are harmless twice: they claim the key, work, and keep their answer. So does
// making a limiter, which is no single step (its name lies elsewhere): the claim keeps its id, so the same one is made again.
// While one request works on such a claim another with its key is a conflict.
//
// A refused request leaves no record: sent again it is judged again, and its key is free for another.
import { createHash } from 'node:crypto';
import { ApiError } from '../base/errors.ts';
import { newOperation } from '../store/batches.ts';
import {
  claimKey,
  finishKey,
  forgetKey,
  type IdemArgs,
  type IdemClaim,
  type IdemRecord,
  NO_RECORD,
  placeOfKey,
} from '../store/idempotency.ts';
import type { Answer, Call, HandlerName } from './call.ts';
import type { ApiContext } from './context.ts';

/** A request's key, where it lies and what it stands for; null without a key. */
export interface Keyed {
  partition: number;
  idem_key: string;
  print: string;
}

export function keyedBy(context: ApiContext, call: Call, name: HandlerName): Keyed | null {
  if (call.idempotency_key === null) return null;
  const hash = createHash('sha256').update(printHead(call, name));
  if (call.raw_body !== null) hash.update(call.raw_body);
  return keyedAs(context, call, hash.digest('base64url'));
}

/** The same where the fingerprint was made elsewhere. */
export function keyedAs(context: ApiContext, call: Call, print: string): Keyed | null {
  const key = keyOf(context, call);
  return key && { ...key, print };
}

/** Where a request's key lies; null without a key. */
export function keyOf(context: ApiContext, call: Call): { partition: number; idem_key: string } | null {
  return call.idempotency_key === null ? null : placeOfKey(call.account_id, call.idempotency_key, context.partitions.first);
}

/** What is before the body in the text of which the fingerprint is made. */
export function printHead(call: Call, name: HandlerName): string {
  return `${name}\n${JSON.stringify(call.params)}\n`;
}

/** The arguments with which a script writes the record; bytes are JSON already. */
export function recordArgs(keyed: Keyed | null, extra: unknown): IdemArgs {
  if (keyed === null) return NO_RECORD;
  const idem_extra = Buffer.isBuffer(extra) ? extra : Buffer.from(JSON.stringify(extra));
  return { idem_key: keyed.idem_key, idem_print: keyed.print, idem_extra };
}

/** 422 where the key was used for another request. */
export function sameRequest(record: IdemRecord, keyed: Keyed): void {
  if (record.print !== keyed.print) throw new ApiError('idempotency_key_reused');
}

export function replayed(answer: Answer): Answer {
  return { ...answer, headers: { ...answer.headers, 'Idempotent-Replayed': 'true' } };
}

/** Claims the key of work on a resource that exists; returns the finished record where there is one. */
export async function claim(context: ApiContext, keyed: Keyed, note = ''): Promise<IdemClaim> {
  const record = await claimKey(context.client, keyed, keyed.print, note);
  sameRequest(record, keyed);
  return record;
}

/** The same, and works; a refusal frees the key. `record` is null without a key. */
export async function claimed<T>(context: ApiContext, keyed: Keyed | null, work: (record: IdemClaim | null) => Promise<T>): Promise<T> {
  if (keyed === null) return work(null);
  const record = await claim(context, keyed);
  return freedByRefusal(context, keyed, record, () => work(record));
}

async function freedByRefusal<T>(context: ApiContext, keyed: Keyed, record: IdemClaim, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ApiError && error.status < 500) await forgetKey(context.client, keyed, record);
    // Where Redis cannot be asked now the claim is too old to be under way a moment later.
    else void forgetKey(context.client, keyed, record, true).catch(() => {});
    throw error;
  }
}

/** What is done for a request: `known` where the same one was begun before and its answer is not known, under the same note. */
export interface Begun {
  known: boolean;
  note: string;
}

/** Runs what is harmless twice; the note is the id of an operation. */
export async function once(context: ApiContext, call: Call, name: HandlerName, run: (begun: Begun) => Promise<Answer>): Promise<Answer> {
  const keyed = keyedBy(context, call, name);
  const operation = newOperation();
  if (keyed === null) return run({ known: false, note: operation });
  // Versions before this one noted nothing.
  return onceAs(context, keyed, operation, ({ known, note }) => run({ known, note: note === '' ? operation : note }));
}

/** Runs what looks a key up. That it is another request's is told last: after what `check` throws. */
export async function toldLast<T>(check: () => unknown, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (error instanceof ApiError && error.row === 'idempotency_key_reused') await check();
    throw error;
  }
}

/**
 * The same for one key, with a note that all runs of the work get: the first one's. Throws 409 while another request does it,
 * unless what they do is `shared`: whoever does it has the same answer.
 */
export async function onceAs(
  context: ApiContext,
  keyed: Keyed,
  note: string,
  run: (begun: Begun) => Promise<Answer>,
  shared = false,
): Promise<Answer> {
  const record = await claim(context, keyed, note);
  if (record.done === null && record.busy && !shared) throw new ApiError('idempotency_conflict', {}, { retry_after_s: 1 });
  return freedByRefusal(context, keyed, record, async () => {
    if (record.done !== null) return replayed({ body: Buffer.from(record.done.reply) });
    const answer = await run(record);
    const body = Buffer.isBuffer(answer.body) ? answer.body : Buffer.from(JSON.stringify(answer.body));
    await finishKey(context.client, keyed, keyed.print, body);
    return { ...answer, body };
  });
}
