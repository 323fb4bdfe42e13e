// Access tokens: their text, and what Redis holds of them (never the text, only its SHA-256).
//
//   slk_<43 characters: 32 random bytes in base 62><6 characters: checksum>
//   tok_<account id><10 characters of the token's hash>      the token's id: names it without giving it away
//
// A token is one hash in the home slot of its own SHA-256, so the look-up of a request touches one key on one node;
// the account's set of hashes is for people (list, revoke). It is written last: a list drops from the set what has no
// token, and must not meet one that is being made. A token whose maker died in between is unlisted, and nobody has it.
import { createHash, hash, randomBytes } from 'node:crypto';
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { accountId, base62, shortHash } from '../base/id.ts';
import { keys } from './keys.ts';
import type { RedisClient } from './script.ts';

/** What a token allows; each includes those before it. */
export const SCOPES = ['read', 'write', 'admin'] as const;
export type Scope = (typeof SCOPES)[number];

export interface TokenRecord {
  id: string;
  account: string;
  scope: Scope;
  created_at_ms: number;
  expires_at_ms: number | null;
  revoked_at_ms: number | null;
}

const TOKEN_PREFIX = 'slk_';
const ID_PREFIX = 'tok_';
const SECRET_WIDTH = 43; // 62^43 > 2^256
const CHECKSUM_WIDTH = 6;
const TOKEN = new RegExp(`^${TOKEN_PREFIX}[0-9A-Za-z]{${SECRET_WIDTH + CHECKSUM_WIDTH}}$`);
const TOKEN_ID = new RegExp(`^${ID_PREFIX}([0-9A-Za-z]{10})[0-9A-Za-z]{10}$`);
/** What the environment can name too (SLUICE_ACCESS_TOKENS), so no comma and no equals sign. */
const ACCOUNT = /^[\x21-\x2b\x2d-\x3c\x3e-\x7e]{1,64}$/;
/** A token that was revoked or has expired is still listed for this long. */
const KEEP_MS = 30 * 86_400_000;
/** Reads sent at once, so that a long list neither waits for each nor floods the connection. */
const READS_AT_ONCE = 100;

export function newTokenText(): string {
  let value = BigInt(`0x${randomBytes(32).toString('hex')}`);
  let secret = '';
  for (let i = 0; i < SECRET_WIDTH; i++) {
    secret = base62(Number(value % 62n), 1) + secret;
    value /= 62n;
  }
  return TOKEN_PREFIX + secret + checksum(secret);
}

/** Whether this can be a token at all; what cannot is refused without a look-up. */
export function isTokenText(text: string): boolean {
  if (!TOKEN.test(text)) return false;
  const at = TOKEN_PREFIX.length + SECRET_WIDTH;
  return text.slice(at) === checksum(text.slice(TOKEN_PREFIX.length, at));
}

/** SHA-256 in hex: the name under which a token is known. */
export function tokenHash(text: string): string {
  return hash('sha256', text, 'hex');
}

export function isAccountName(name: string): boolean {
  return ACCOUNT.test(name);
}

/** Makes a token; its text is in the answer and nowhere else. `expires_in_ms` null: never. */
export async function createToken(
  redis: RedisClient,
  options: { account: string; scope: Scope; expires_in_ms: number | null; now_ms: number },
): Promise<{ text: string; record: TokenRecord }> {
  const { account, scope, expires_in_ms, now_ms } = options;
  if (!isAccountName(account)) throw new RangeError('An account name is 1 to 64 visible ASCII characters, without comma and equals sign.');
  const text = newTokenText();
  const hash = tokenHash(text);
  const record: TokenRecord = {
    id: tokenId(account, hash),
    account,
    scope,
    created_at_ms: now_ms,
    expires_at_ms: expires_in_ms === null ? null : now_ms + expires_in_ms,
    revoked_at_ms: null,
  };
  const write = redis.multi().hset(keys.token(hash), {
    id: record.id,
    account,
    scope,
    created_at: now_ms,
    expires_at: record.expires_at_ms ?? '',
    revoked_at: '',
  });
  if (record.expires_at_ms !== null) write.pexpireat(keys.token(hash), record.expires_at_ms + KEEP_MS);
  const replies = await write.exec();
  for (const [error] of replies ?? []) if (error !== null) throw error;
  await redis.sadd(keys.accountTokens(accountId(account)), hash);
  await redis.sadd(keys.accounts(), account);
  return { text, record };
}

/** The token of this hash, also where it was revoked or has expired; null where there is none. */
export async function lookupToken(redis: RedisClient, hash: string): Promise<TokenRecord | null> {
  const [id, account, scope, created_at, expires_at, revoked_at] = await redis.hmget(
    keys.token(hash),
    'id',
    'account',
    'scope',
    'created_at',
    'expires_at',
    'revoked_at',
  );
  const known = SCOPES.find((one) => one === scope);
  if (typeof id !== 'string' || typeof account !== 'string' || known === undefined) return null;
  return {
    id,
    account,
    scope: known,
    created_at_ms: Number(created_at),
    expires_at_ms: expires_at ? Number(expires_at) : null,
    revoked_at_ms: revoked_at ? Number(revoked_at) : null,
  };
}

/** The name of an account by its id; null where it has no token. */
export async function accountName(redis: RedisClient, account_id: string): Promise<string | null> {
  const hash = await redis.srandmember(keys.accountTokens(account_id));
  return hash === null ? null : redis.hget(keys.token(hash), 'account');
}

/** Tokens of one account, or (null) of all, oldest first. Drops what Redis has let go from the account's set. */
export async function listTokens(redis: RedisClient, account: string | null): Promise<TokenRecord[]> {
  const accounts = account === null ? await redis.smembers(keys.accounts()) : [account];
  const out: TokenRecord[] = [];
  for (const name of accounts) {
    const set = keys.accountTokens(accountId(name));
    const hashes = await redis.smembers(set);
    for (let at = 0; at < hashes.length; at += READS_AT_ONCE) {
      const slice = hashes.slice(at, at + READS_AT_ONCE);
      const records = await Promise.all(slice.map((hash) => lookupToken(redis, hash)));
      out.push(...records.filter((record) => record !== null));
      const gone = slice.filter((_, i) => records[i] === null);
      if (gone.length > 0) await redis.srem(set, gone);
    }
  }
  return out.sort((a, b) => a.created_at_ms - b.created_at_ms || (a.id < b.id ? -1 : 1));
}

/** From now on the token is refused (within a process's cache time). null: there is no token of this id. Twice is safe. */
export async function revokeToken(redis: RedisClient, id: string, now_ms: number): Promise<TokenRecord | null> {
  const account = TOKEN_ID.exec(id)?.[1];
  if (account === undefined) return null;
  const hashes = await redis.smembers(keys.accountTokens(account));
  const hash = hashes.find((one) => id.endsWith(shortHash(one)));
  const record = hash === undefined ? null : await lookupToken(redis, hash);
  if (hash === undefined || record === null || record.revoked_at_ms !== null) return record;
  const key = keys.token(hash);
  const replies = await redis
    .multi()
    .hset(key, 'revoked_at', now_ms)
    .pexpireat(key, now_ms + KEEP_MS)
    .exec();
  for (const [error] of replies ?? []) if (error !== null) throw error;
  return { ...record, revoked_at_ms: now_ms };
}

/** Whether a token is good at this time. */
export function isLive(record: TokenRecord, now_ms: number): boolean {
  return record.revoked_at_ms === null && (record.expires_at_ms === null || now_ms < record.expires_at_ms);
}

/**
 * The token that a server without any configured makes for itself: kept in `data_dir`/token (mode 0600), the same one at
 * the next start. Of several processes that start at once, one makes it.
 */
export function ensureLocalToken(data_dir: string): { token: string; path: string; created: boolean } {
  mkdirSync(data_dir, { recursive: true });
  const path = join(data_dir, 'token');
  const found = readToken(path);
  if (found !== null) return { token: found, path, created: false };
  const fresh = `${path}.${process.pid}.new`;
  const token = newTokenText();
  writeFileSync(fresh, `${token}\n`, { mode: 0o600 });
  try {
    linkSync(fresh, path);
    return { token, path, created: true };
  } catch (error) {
    const other = readToken(path);
    if (other === null) throw error;
    return { token: other, path, created: false };
  } finally {
    rmSync(fresh, { force: true });
  }
}

function readToken(path: string): string | null {
  let text: string;
  try {
    text = readFileSync(path, 'utf8').trim();
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null;
    throw error;
  }
  if (!isTokenText(text)) throw new Error(`${path} does not hold an access token: remove it, and a new one is made.`);
  return text;
}

function tokenId(account: string, hash: string): string {
  return ID_PREFIX + accountId(account) + shortHash(hash);
}

/** 35 bits: a mistyped or made-up token passes once in 56 thousand million times. No secret. */
function checksum(secret: string): string {
  const digest = createHash('sha256').update(`sluice-token:${secret}`).digest();
  return base62(digest.readUIntBE(0, 6) % 62 ** CHECKSUM_WIDTH, CHECKSUM_WIDTH);
}
