// Identifiers: what they carry and how they are read.
//
//   batch_<PP><TTTTTTT><RRRRRRRRR>     PP partition, T creation ms, R 53 random bits; all base 62
//   task_<batch part>_<index>          index: decimal place in the batch, from 0
//   ntf_<batch part>_<index>           the same among a batch's notifications
//
// The alphabet is in ASCII order and the parts have fixed widths, so ids of one partition sort by creation.
// Every id carries its partition: any process finds the resource without a look-up.
import { createHash, randomFillSync } from 'node:crypto';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const PARTITION_WIDTH = 2;
const TIME_WIDTH = 7; // 62^7 ms reach the year 2081
const RANDOM_WIDTH = 9;
const CORE_WIDTH = PARTITION_WIDTH + TIME_WIDTH + RANDOM_WIDTH;
const ACCOUNT_WIDTH = 10;
const CORE = new RegExp(`^[0-9A-Za-z]{${CORE_WIDTH}}$`);
const INDEX_MAX = 99_999_999;

/** The kinds of resource and the prefix of their ids. */
export const ID_PREFIX = { batch: 'batch_', task: 'task_', notification: 'ntf_', schedule: 'sched_', limiter: 'rl_' } as const;

/** Non-negative integer below 2^53 in base 62, padded to `width` digits. */
export function base62(value: number, width: number): string {
  let rest = value;
  let out = '';
  for (let i = 0; i < width; i++) {
    out = ALPHABET[rest % 62] + out;
    rest = Math.floor(rest / 62);
  }
  return out;
}

/** Random bytes in store: each call of the generator costs more than all the rest of an id. */
const random = Buffer.alloc(4096);
let random_used = random.length;

/** 53 random bits. */
export function randomBits(): number {
  if (random_used === random.length) {
    randomFillSync(random);
    random_used = 0;
  }
  random_used += 8;
  return random.readUInt32LE(random_used - 8) * 2 ** 21 + (random.readUInt32LE(random_used - 4) >>> 11);
}

/** The partition-carrying part of an id, without its prefix: 18 characters. */
export function newCore(partition: number, now_ms: number): string {
  return base62(partition, PARTITION_WIDTH) + base62(now_ms, TIME_WIDTH) + base62(randomBits(), RANDOM_WIDTH);
}

/** The same for one and the same thing whoever makes it: what would be random follows from `seed`. */
export function derivedCore(partition: number, at_ms: number, seed: string): string {
  return base62(partition, PARTITION_WIDTH) + base62(at_ms, TIME_WIDTH) + shortHash(seed).slice(-RANDOM_WIDTH);
}

/** The partition in a core made by `newCore`. */
export function partitionOf(core: string): number {
  return ALPHABET.indexOf(core[0] ?? '') * 62 + ALPHABET.indexOf(core[1] ?? '');
}

/** The core of an id with this prefix, or null where `id` is not one. */
export function parseId(prefix: string, id: string): string | null {
  if (!id.startsWith(prefix)) return null;
  const core = id.slice(prefix.length);
  return CORE.test(core) ? core : null;
}

/** `task_<core>_<index>`. */
export function taskId(core: string, index: number): string {
  return `${ID_PREFIX.task}${core}_${index}`;
}

/** Batch core and index in a task id, or null where `id` is not one. */
export function parseTaskId(id: string): { core: string; index: number } | null {
  return parseIndexed(ID_PREFIX.task, id);
}

/** `ntf_<core>_<index>`. */
export function notificationId(core: string, index: number): string {
  return `${ID_PREFIX.notification}${core}_${index}`;
}

/** Batch core and index in a notification's id, or null where `id` is not one. */
export function parseNotificationId(id: string): { core: string; index: number } | null {
  return parseIndexed(ID_PREFIX.notification, id);
}

function parseIndexed(prefix: string, id: string): { core: string; index: number } | null {
  const at = prefix.length + CORE_WIDTH;
  if (!id.startsWith(prefix) || id[at] !== '_') return null;
  const core = id.slice(prefix.length, at);
  const digits = id.slice(at + 1);
  if (!CORE.test(core) || !/^(0|[1-9]\d{0,7})$/.test(digits)) return null;
  const index = Number(digits);
  return index <= INDEX_MAX ? { core, index } : null;
}

/** The key-safe name of an account: ten base-62 characters of SHA-256. A name that people chose is never part of a key. */
export function accountId(name: string): string {
  return shortHash(`account:${name}`);
}

/** The key-safe name of a target's origin (`https://host:port`). */
export function originHash(origin: string): string {
  return shortHash(`origin:${origin}`);
}

/** Ten base-62 characters (59 bits) of SHA-256; for key parts, not for secrets. */
export function shortHash(text: string): string {
  const digest = createHash('sha256').update(text).digest();
  let value = digest.readBigUInt64BE() % 62n ** BigInt(ACCOUNT_WIDTH);
  let out = '';
  for (let i = 0; i < ACCOUNT_WIDTH; i++) {
    out = ALPHABET[Number(value % 62n)] + out;
    value /= 62n;
  }
  return out;
}
