// Idempotency records: which request a key was used for, and what came of it. Kept for 24 hours.
import { partitionOf } from '../base/id.ts';
import { idempotencyName, idempotencyPartition, keys } from './keys.ts';
import type { RedisClient } from './script.ts';
import { idemBegin, idemFinish, idemForget } from './scripts.gen.ts';

/** What a script needs to write a record in its own step; `NO_RECORD` writes none. */
export interface IdemArgs {
  idem_key: string;
  idem_print: string;
  /** JSON that the answer needs besides the script's reply. */
  idem_extra: Buffer;
}

export const NO_RECORD: IdemArgs = { idem_key: '', idem_print: '', idem_extra: Buffer.alloc(0) };

export interface IdemRecord {
  /** Fingerprint of the request that the key belongs to. */
  print: string;
  /** Null while its work is unfinished. */
  done: { reply: string; extra: string } | null;
}

/** Where a key's record lies, and its name in keys. */
export function placeOfKey(account_id: string, key: string, partitions_first: number): { partition: number; idem_key: string } {
  return { partition: idempotencyPartition(account_id, key, partitions_first), idem_key: idempotencyName(account_id, key) };
}

/** The record of a key in a partition, or null. */
export async function readRecord(client: RedisClient, partition: number, idem_key: string): Promise<IdemRecord | null> {
  const [print, reply, extra] = await client.hmget(keys.idempotency(partition, idem_key), 'f', 'r', 'x');
  if (!print) return null;
  return { print, done: reply ? { reply, extra: extra ?? '' } : null };
}

/** The same beside a resource. */
export async function readRecordBeside(client: RedisClient, core: string, idem_key: string): Promise<IdemRecord | null> {
  return readRecord(client, partitionOf(core), idem_key);
}

/** A claim of a key for work that is harmless twice. */
export interface IdemClaim extends IdemRecord {
  /** It was claimed before. */
  known: boolean;
  /** So lately that its work may be under way. */
  busy: boolean;
  /** When its work began, by the partition's clock. */
  begun_ms: number;
  /** What its first claim noted. */
  note: string;
}

/** Claims a key; `note` stays with it, for whoever has to do the same again. */
export async function claimKey(
  client: RedisClient,
  place: { partition: number; idem_key: string },
  print: string,
  note = '',
): Promise<IdemClaim> {
  const [held_by, reply, extra, known, begun_ms] = await idemBegin.call(
    client,
    { meta: keys.partition(place.partition) },
    { idem_key: place.idem_key, idem_print: print, note },
  );
  return { print: held_by, done: reply === '' ? null : { reply, extra }, known: known > 0, busy: known === 2, begun_ms, note: extra };
}

/** Keeps the answer of work that was claimed. */
export async function finishKey(
  client: RedisClient,
  place: { partition: number; idem_key: string },
  print: string,
  answer: Buffer,
): Promise<void> {
  await idemFinish.call(client, { meta: keys.partition(place.partition) }, { idem_key: place.idem_key, idem_print: print, answer });
}

/** Frees a key whose work was refused; `keep`: it is unknown what came of it, and who asks again may do it again. */
export async function forgetKey(
  client: RedisClient,
  { partition, idem_key }: { partition: number; idem_key: string },
  { print, begun_ms }: IdemClaim,
  keep = false,
): Promise<void> {
  await idemForget.call(client, { meta: keys.partition(partition) }, { idem_key, idem_print: print, begun_ms, keep: keep ? 1 : 0 });
}
