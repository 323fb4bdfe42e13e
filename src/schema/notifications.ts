// The notifications that a batch sends: which events, and where each goes.
import { COUNT, closed, PAGE, ref, type SchemaTable, TIMESTAMP } from './definition.ts';

/** Keys of `notifications`; each is the `event` of what it sends. */
export const NOTIFICATION_EVENTS = ['on_progress', 'on_finish', 'on_success', 'on_death', 'on_complete'] as const;
export type NotificationEvent = (typeof NOTIFICATION_EVENTS)[number];

export const DELIVERY_STATUSES = ['pending', 'delivering', 'delivered', 'failed'] as const;

const EVENT = { type: 'string', enum: NOTIFICATION_EVENTS } as const;
const STATUS = { type: 'string', enum: DELIVERY_STATUSES } as const;

export const NOTIFICATION_SCHEMAS = {
  Notifications: closed(
    'Webhooks by event.',
    {
      on_progress: ref('ProgressWebhook'),
      on_finish: ref('Webhook'),
      on_success: ref('Webhook'),
      on_death: ref('Webhook'),
      on_complete: ref('Webhook'),
    },
    [],
  ),
  NotificationDelivery: closed(
    'A notification and how its delivery stands.',
    {
      id: { type: 'string' },
      event: EVENT,
      status: {
        ...STATUS,
        description: 'pending: not sent yet, or waiting to be sent again; delivering: being sent; failed: given up after the last try.',
      },
      attempts: { ...COUNT, description: 'How many tries have been made.' },
      created_at: { ...TIMESTAMP, description: 'When what it tells of happened.' },
      delivered_at: TIMESTAMP,
      next_attempt_at: { ...TIMESTAMP, description: 'Where it waits to be sent again.' },
      result: ref('TaskResult'),
    },
    ['id', 'event', 'status', 'attempts', 'created_at'],
  ),
  NotificationLog: closed(
    'A page of the delivery log of a batch, newest first.',
    { total: COUNT, notifications: { type: 'array', items: ref('NotificationDelivery') } },
    ['total', 'notifications'],
  ),
} as const satisfies SchemaTable;

export const NOTIFICATION_QUERIES = {
  NotificationListQuery: closed(
    '',
    {
      status: { ...STATUS, description: 'Only notifications of this status.' },
      event: { ...EVENT, description: 'Only notifications of this event.' },
      ...PAGE,
    },
    [],
  ),
} as const satisfies SchemaTable;
