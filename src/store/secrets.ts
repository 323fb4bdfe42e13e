// Signing secrets of accounts: one that is current, and for a day after a rotation the one before.
import { randomBytes } from 'node:crypto';
import { base62 } from '../base/id.ts';
import { keys } from './keys.ts';
import type { RedisClient } from './script.ts';
import { secretEnsure, secretRotate } from './scripts.gen.ts';

export interface SigningSecret {
  id: string;
  /** `whsec_` and base64 of 32 bytes, as Standard Webhooks has it. */
  secret: string;
  created_ms: number;
  expires_ms: number | null;
}

const PREFIX = 'whsec_';
const SECRET_BYTES = 32;
const OVERLAP_MS = 24 * 3_600_000;

/** The live secrets, newest first; makes the first one where there is none. */
export async function signingSecrets(client: RedisClient, account_id: string): Promise<SigningSecret[]> {
  return read(await secretEnsure.call(client, { secrets: keys.secrets(account_id) }, newSecret()));
}

/** A new secret; the one before stays valid for 24 hours. Newest first. Threads that sign are told; who does not hear it reads them again in seconds. */
export async function rotateSecret(client: RedisClient, account_id: string): Promise<SigningSecret[]> {
  const flat = await secretRotate.call(client, { secrets: keys.secrets(account_id) }, { ...newSecret(), overlap_ms: OVERLAP_MS });
  await client.spublish(keys.rotated(), account_id).catch(() => {});
  return read(flat);
}

/** The bytes that sign. */
export function secretKey(secret: SigningSecret): Buffer {
  return Buffer.from(secret.secret.slice(PREFIX.length), 'base64');
}

function newSecret(): { id: string; secret: string } {
  return { id: `sec_${base62(randomBytes(6).readUIntBE(0, 6), 9)}`, secret: PREFIX + randomBytes(SECRET_BYTES).toString('base64') };
}

function read(flat: readonly string[]): SigningSecret[] {
  const secrets: SigningSecret[] = [];
  for (let i = 0; i < flat.length; i += 4) {
    const [id = '', secret = '', created = '', expires = ''] = flat.slice(i, i + 4);
    secrets.push({ id, secret, created_ms: Number(created), expires_ms: expires === '' ? null : Number(expires) });
  }
  return secrets;
}
