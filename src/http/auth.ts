// Who is calling: the bearer token of a request becomes an account and a scope.
//
// Tokens of the environment are known without Redis. Others are looked up by their hash and remembered for CACHE_MS, so
// that a revoked one stops working within 5 s everywhere. While Redis cannot be asked, a token that was good until then
// goes on for STALE_MS, so that the request itself meets the 503; one that is not known here answers 503, never 401.
import { createHash, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import { ApiError } from '../base/errors.ts';
import { accountId } from '../base/id.ts';
import { isUnavailable } from '../store/errors.ts';
import { isAccountName, isLive, isTokenText, SCOPES, type Scope, type TokenRecord, tokenHash } from '../store/tokens.ts';

export interface Principal {
  account: string;
  account_id: string;
  scope: Scope;
  /** Hash of the token, null where that always holds, or is not known. */
  token: string | null;
}

export interface AuthOptions {
  /** By SHA-256 (hex). Rejects where Redis cannot be asked. */
  lookup(hash: string): Promise<TokenRecord | null>;
  /** Tokens that always hold, with scope admin. */
  fixed?: readonly { account: string; token: string }[];
  clock: Clock;
  /** Requests with a bad token that an address may send per minute before they are answered 429; 0 = no limit. */
  failures_per_minute?: number;
}

/** Redis answers within its own 2 s at most; with them a revoked token is gone within 5 s. */
const CACHE_MS = 2_500;
const STALE_MS = 60_000;
const KNOWN_MAX = 10_000;
const HEADERS_MAX = 1_000;
const UNKNOWN_MAX = 1_000;
/** Shorter tokens do for development and tests. */
const TOKEN_LENGTH_GOOD = 16;
const BEARER = /^bearer +([\x21-\x7e]{1,512}) *$/i;
const FAILURES_PER_MINUTE = 300;
/** So many times as much may an address have looked up in vain: good tokens come from there, too, and are not known here yet. */
const LOOKUPS_FACTOR = 10;
const MINUTE_MS = 60_000;
const ADDRESSES_MAX = 10_000;

interface Known {
  principal: Principal;
  record: TokenRecord;
  read_at_ms: number;
}

export class Authenticator {
  readonly #options: AuthOptions;
  readonly #fixed = new Map<string, Principal>();
  readonly #known = new Map<string, Known>();
  /** Authorization headers of good tokens, and the hashes of those: to hash a token costs more than all else that is asked about it. */
  readonly #hashes = new Map<string, string>();
  /** Hash → when it was looked up in vain. */
  readonly #unknown = new Map<string, number>();
  readonly #asking = new Map<string, Promise<Principal | null>>();
  readonly #failures: FailureLimit;
  /** Those that Redis was asked about. */
  readonly #lookups: FailureLimit;

  constructor(options: AuthOptions) {
    this.#options = options;
    this.#failures = new FailureLimit(options.failures_per_minute ?? FAILURES_PER_MINUTE, options.clock);
    this.#lookups = new FailureLimit((options.failures_per_minute ?? FAILURES_PER_MINUTE) * LOOKUPS_FACTOR, options.clock);
    for (const { account, token } of options.fixed ?? []) {
      if (!isAccountName(account)) throw new Error(`"${account}" cannot be the name of an account: 1 to 64 visible ASCII characters.`);
      this.#fixed.set(tokenHash(token), { account, account_id: accountId(account), scope: 'admin', token: null });
    }
  }

  /**
   * The caller named by an Authorization header; at once where the token is known here. Throws or rejects with
   * 401, 429 or 503. `address` is asked for only where the token is bad.
   */
  check(header: string, address: () => string): Principal | Promise<Principal> {
    const hash = this.#hashes.get(header) ?? this.#hashOf(header);
    if (hash === null) throw this.refused(address);
    const fixed = this.#fixed.get(hash);
    if (fixed !== undefined) return fixed;
    const now = this.#options.clock();
    const known = this.#known.get(hash);
    if (known !== undefined && now - known.read_at_ms < CACHE_MS && isLive(known.record, now)) return known.principal;
    if (now - (this.#unknown.get(hash) ?? -CACHE_MS) < CACHE_MS) throw this.refused(address);
    // The socket may be gone when the answer comes, and with it its address.
    const from = address();
    if (known === undefined) this.refuseFlood(from);
    return this.#ask(hash).then((principal) => {
      if (principal === null) throw this.unknown(from);
      return principal;
    });
  }

  /** Whether a token that was good still is, asked as often as for requests with it; while Redis cannot be asked it is. */
  async holds(hash: string): Promise<boolean> {
    const now = this.#options.clock();
    const known = this.#known.get(hash);
    if (known !== undefined && now - known.read_at_ms < CACHE_MS) return isLive(known.record, now);
    try {
      return (await this.#ask(hash)) !== null;
    } catch (error) {
      if (error instanceof ApiError && error.row === 'unavailable') return known === undefined || isLive(known.record, now);
      throw error;
    }
  }

  /** Of the token in a header, remembered where that is known here; null where there is none that could be good. */
  #hashOf(header: string): string | null {
    const text = BEARER.exec(header)?.[1];
    if (text === undefined) return null;
    const hash = tokenHash(text);
    if (this.#fixed.has(hash) || this.#known.has(hash)) remember(this.#hashes, header, hash, HEADERS_MAX);
    else if (!isTokenText(text)) return null;
    return hash;
  }

  /** Throws 429 where an address has sent so many bad tokens and tickets that none of its is looked up any more. */
  refuseFlood(address: string): void {
    this.#lookups.refuseOver(address);
  }

  /** One look-up for all requests that wait for the same token. */
  #ask(hash: string): Promise<Principal | null> {
    const asking = this.#asking.get(hash);
    if (asking !== undefined) return asking;
    const asked = this.#read(hash).finally(() => this.#asking.delete(hash));
    this.#asking.set(hash, asked);
    return asked;
  }

  async #read(hash: string): Promise<Principal | null> {
    const asked_at_ms = this.#options.clock();
    let record: TokenRecord | null;
    try {
      record = await this.#options.lookup(hash);
    } catch (error) {
      if (!isUnavailable(error)) throw error;
      const known = this.#known.get(hash);
      const now = this.#options.clock();
      if (known !== undefined && now - known.read_at_ms < STALE_MS && isLive(known.record, now)) return known.principal;
      throw new ApiError('unavailable', {}, { retry_after_s: 1 });
    }
    if (record === null || !isLive(record, this.#options.clock())) {
      this.#known.delete(hash);
      remember(this.#unknown, hash, asked_at_ms, UNKNOWN_MAX);
      return null;
    }
    const principal = { account: record.account, account_id: accountId(record.account), scope: record.scope, token: hash };
    remember(this.#known, hash, { principal, record, read_at_ms: asked_at_ms }, KNOWN_MAX);
    return principal;
  }

  /** Counts a bad token or ticket; the 401 to answer, or 429. */
  refused(address: () => string): ApiError {
    if (this.#failures.none) return new ApiError('unauthorized');
    const from = address();
    this.#failures.refuseOver(from);
    this.#failures.count(from);
    return new ApiError('unauthorized');
  }

  /** The same of one that Redis was asked about. */
  unknown(address: string): ApiError {
    this.#lookups.count(address);
    return this.refused(() => address);
  }
}

/** Whether what a token allows covers what a route needs. */
export function allows(scope: Scope, needed: Scope): boolean {
  return SCOPES.indexOf(scope) >= SCOPES.indexOf(needed);
}

/** Whether a token of the environment is so short that trying will find it. */
export function isGuessable({ token }: { token: string }): boolean {
  return token.length < TOKEN_LENGTH_GOOD;
}

/** Compares a bearer token with a configured one, in a time that tells nothing about either. */
export function isBearer(header: string, expected: string): boolean {
  const given = BEARER.exec(header)?.[1] ?? '';
  return timingSafeEqual(sha256(given), sha256(expected));
}

/** Bad tokens per address and minute (of the clock, aligned), in this process alone. */
class FailureLimit {
  readonly #per_minute: number;
  readonly #clock: Clock;
  #counts = new Map<string, number>();
  #minute = 0;

  constructor(per_minute: number, clock: Clock) {
    this.#per_minute = per_minute;
    this.#clock = clock;
  }

  get none(): boolean {
    return this.#per_minute === 0;
  }

  /** Throws 429 where the address has used up its failures. */
  refuseOver(address: string): void {
    const now = this.#turn();
    if (this.none || (this.#counts.get(address) ?? 0) < this.#per_minute) return;
    const retry_after_s = Math.ceil((MINUTE_MS - (now % MINUTE_MS)) / 1_000);
    throw new ApiError('rate_limited', {}, { message: 'Too many requests with a bad access token.', retry_after_s });
  }

  count(address: string): void {
    this.#turn();
    remember(this.#counts, address, (this.#counts.get(address) ?? 0) + 1, ADDRESSES_MAX);
  }

  #turn(): number {
    const now = this.#clock();
    const minute = Math.floor(now / MINUTE_MS);
    if (minute !== this.#minute) this.#counts = new Map();
    this.#minute = minute;
    return now;
  }
}

/** Sets, and lets go of the oldest entry beyond `max`. */
function remember<V>(map: Map<string, V>, key: string, value: V, max: number): void {
  map.delete(key);
  map.set(key, value);
  if (map.size <= max) return;
  for (const oldest of map.keys()) {
    map.delete(oldest);
    return;
  }
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
