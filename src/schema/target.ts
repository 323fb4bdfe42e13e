// Where a call goes: the target of a task, and the webhook of a notification.
import { closed, type JsonSchema, ref, type SchemaTable } from './definition.ts';
import { PATTERN } from './formats.ts';

export const URL_LENGTH_MAX = 2048;

/** Methods of a callback; no body is sent with GET and HEAD. */
export const TARGET_METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;
export const WEBHOOK_METHODS = ['POST', 'PUT', 'PATCH'] as const;

const URL_TEXT = {
  type: 'string',
  minLength: 1,
  maxLength: URL_LENGTH_MAX,
  description: 'An http: or https: URL without credentials.',
} as const satisfies JsonSchema;

const TARGET_METHOD = { type: 'string', enum: TARGET_METHODS, default: 'POST' } as const satisfies JsonSchema;
const WEBHOOK_METHOD = { type: 'string', enum: WEBHOOK_METHODS, default: 'POST' } as const satisfies JsonSchema;

const WEBHOOK_FIELDS = { url: URL_TEXT, method: WEBHOOK_METHOD, headers: ref('TargetHeaders') } as const satisfies SchemaTable;

export const TARGET_SCHEMAS = {
  TargetHeaders: {
    type: 'object',
    description:
      'Headers to send along. Write-only: shown with every value as "***". Those that Sluice or HTTP itself sets cannot be given.',
    propertyNames: { type: 'string', pattern: PATTERN.header_name, maxLength: 128 },
    additionalProperties: { type: 'string', pattern: PATTERN.header_value, maxLength: 4096 },
    maxProperties: 64,
  },
  // One schema for both forms, not a oneOf: the keywords of strings and of objects do not meet, and a fault names its place.
  Target: {
    type: ['string', 'object'],
    description: 'A URL (method POST), or an object with url, method and headers. Echoed as it was sent.',
    minLength: 1,
    maxLength: URL_LENGTH_MAX,
    properties: { url: URL_TEXT, method: TARGET_METHOD, headers: ref('TargetHeaders') },
    required: ['url'],
    additionalProperties: false,
  },
  Webhook: closed('Where a notification goes.', WEBHOOK_FIELDS, ['url']),
  ProgressWebhook: closed(
    'Where the notifications of progress go.',
    {
      ...WEBHOOK_FIELDS,
      min_interval: {
        type: 'number',
        minimum: 0,
        maximum: 86_400,
        default: 0,
        description: 'Seconds. Notifications that fall within it are merged; the last one is always sent.',
      },
    },
    ['url'],
  ),
} as const satisfies SchemaTable;
