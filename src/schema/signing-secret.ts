// The secrets that sign an account's callbacks and notifications.
import { closed, ref, type SchemaTable, TIMESTAMP } from './definition.ts';

export const SIGNING_SECRET_SCHEMAS = {
  SigningSecret: closed(
    'A secret; two are live while a rotation lasts.',
    {
      id: { type: 'string' },
      secret: { type: 'string', description: 'whsec_ and base64, as Standard Webhooks has it.' },
      created_at: TIMESTAMP,
      expires_at: { type: ['string', 'null'], format: 'date-time' },
    },
    ['id', 'secret', 'created_at', 'expires_at'],
  ),
  SigningSecrets: closed('The live secrets of the account, newest first.', { secrets: { type: 'array', items: ref('SigningSecret') } }, [
    'secrets',
  ]),
} as const satisfies SchemaTable;
