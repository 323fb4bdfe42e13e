// The notifications that a batch sends: which events, and where each goes.
import { closed, ref, type SchemaTable } from './definition.ts';

/** Keys of `notifications`; each is the `event` of what it sends. */
export const NOTIFICATION_EVENTS = ['on_progress', 'on_finish', 'on_success', 'on_death', 'on_complete'] as const;
export type NotificationEvent = (typeof NOTIFICATION_EVENTS)[number];

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
} as const satisfies SchemaTable;
