// The account's signing secret: shown to its admins, rotated by them.
import { rotateSecret, type SigningSecret, signingSecrets } from '../store/secrets.ts';
import type { Answer, Call } from './call.ts';
import type { ApiContext } from './context.ts';
import { timestamp } from './present.ts';

export async function getSigningSecret(context: ApiContext, call: Call): Promise<Answer> {
  return answer(await signingSecrets(context.client, call.account_id));
}

export async function rotateSigningSecret(context: ApiContext, call: Call): Promise<Answer> {
  return answer(await rotateSecret(context.client, call.account_id));
}

function answer(secrets: readonly SigningSecret[]): Answer {
  return {
    body: {
      secrets: secrets.map(({ id, secret, created_ms, expires_ms }) => ({
        id,
        secret,
        created_at: timestamp(created_ms),
        expires_at: expires_ms === null ? null : timestamp(expires_ms),
      })),
    },
  };
}
