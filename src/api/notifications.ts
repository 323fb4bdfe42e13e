// What a batch has notified of: its delivery log, and a notification sent again.
import { ApiError } from '../base/errors.ts';
import { notificationId, parseNotificationId } from '../base/id.ts';
import type { NotificationDelivery, NotificationListQuery } from '../schema/types.gen.ts';
import * as log from '../store/notifications.ts';
import { coreOf, missing, visible } from './batches.ts';
import type { Answer, Call } from './call.ts';
import type { ApiContext } from './context.ts';
import { once } from './idempotency.ts';
import { lastAttempt, timestamp } from './present.ts';

export async function listNotifications(context: ApiContext, call: Call): Promise<Answer> {
  const { status = null, event = null, limit, offset } = call.query as unknown as NotificationListQuery;
  const { core } = await visible(context, call);
  const { total, rows } = await log.readLog(context.client, core, { status, event, limit, offset });
  return { body: { total, notifications: rows.map(deliveryView) } };
}

export async function redeliverNotification(context: ApiContext, call: Call): Promise<Answer> {
  return once(context, call, 'redeliverNotification', async ({ note: operation }) => {
    const core = coreOf(call);
    const place = parseNotificationId(call.params['notification_id'] ?? '');
    if (place === null || place.core !== core) {
      await visible(context, call);
      throw noNotification(call);
    }
    const outcome = await log.redeliver(context.client, call.account_id, core, place.index, operation);
    if (outcome === 'batch') throw missing(call);
    const row = outcome === 'missing' ? null : await log.readNotification(context.client, core, place.index);
    if (row === null) throw noNotification(call);
    return { body: deliveryView(row) };
  });
}

/** 404 of the batch and of the notification in the path, where the request has another fault. */
export async function notificationExists(context: ApiContext, call: Call): Promise<void> {
  const { core } = await visible(context, call);
  const place = parseNotificationId(call.params['notification_id'] ?? '');
  if (place?.core !== core || (await log.readNotification(context.client, core, place.index)) === null) throw noNotification(call);
}

function noNotification(call: Call): ApiError {
  return new ApiError('notification_not_found', { notification_id: call.params['notification_id'] });
}

function deliveryView({ core, index, status, note, result }: log.NotificationRow): NotificationDelivery {
  const last = result === null ? null : lastAttempt(result);
  return {
    id: notificationId(core, index),
    event: note.event,
    status,
    attempts: (last?.attempts ?? 0) + (status === 'delivering' ? 1 : 0),
    created_at: timestamp(note.at_ms),
    ...(status === 'delivered' && last !== null ? { delivered_at: timestamp(last.ended_ms) } : {}),
    ...(status === 'pending' && last !== null && last.next_ms !== null ? { next_attempt_at: timestamp(last.next_ms) } : {}),
    ...(last === null ? {} : { result: last.result }),
  };
}
