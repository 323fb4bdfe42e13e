// The signing keys of accounts, as a thread knows them: read once, then again when they are a few seconds old, and after a rotation before they
// are used. Who rotates says so to all threads (store/secrets.ts); what is said may be lost.

import { monotonicMs } from '../base/clock.ts';
import { ACCOUNTS_MAX, SECRETS_OLD_MS, SECRETS_TTL_MS } from '../base/limits.ts';
import type { RedisClient } from '../store/script.ts';
import { secretKey, signingSecrets } from '../store/secrets.ts';

interface Known {
  keys: readonly Buffer[];
  read_ms: number;
}

export class SigningKeys {
  readonly #client: RedisClient;
  readonly #known = new Map<string, Known>();
  readonly #reading = new Map<string, Promise<readonly Buffer[]>>();
  /** Grows with every rotation heard of: what was read before it may be old. */
  #rotations = 0;

  constructor(client: RedisClient) {
    this.#client = client;
  }

  /** The live keys of an account, newest first, or null where they must be read first. Old ones are used while new ones are read, but not much older ones. */
  get(account_id: string): readonly Buffer[] | null {
    const known = this.#known.get(account_id);
    if (known === undefined) return null;
    const age_ms = monotonicMs() - known.read_ms;
    if (age_ms > SECRETS_OLD_MS) return null;
    // Not before the call that asks is on its way; where it fails the next one tries again.
    if (age_ms > SECRETS_TTL_MS) setImmediate(() => this.read(account_id).catch(() => {}));
    return known.keys;
  }

  /** They were rotated, those of all accounts where none is named: they are read before they are used again. */
  rotated(account_id?: string): void {
    this.#rotations += 1;
    for (const map of [this.#known, this.#reading]) account_id === undefined ? map.clear() : map.delete(account_id);
  }

  /** Reads them; joins a read that is under way. */
  read(account_id: string): Promise<readonly Buffer[]> {
    const reading = this.#reading.get(account_id);
    if (reading !== undefined) return reading;
    const read = this.#read(account_id).finally(() => {
      if (this.#reading.get(account_id) === read) this.#reading.delete(account_id);
    });
    this.#reading.set(account_id, read);
    return read;
  }

  async #read(account_id: string): Promise<readonly Buffer[]> {
    const rotations = this.#rotations;
    const fresh = (await signingSecrets(this.#client, account_id)).map(secretKey);
    const before = this.#known.get(account_id)?.keys;
    // The same Buffer objects while nothing changed: the outbound client remembers prepared keys by identity.
    const same = before !== undefined && before.length === fresh.length && before.every((key, i) => key.equals(fresh[i] as Buffer));
    const kept = same ? before : fresh;
    if (rotations !== this.#rotations) return fresh;
    if (this.#known.size >= ACCOUNTS_MAX) this.#known.clear();
    this.#known.set(account_id, { keys: kept, read_ms: monotonicMs() });
    return kept;
  }
}
