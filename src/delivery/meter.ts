// The numbers of a callback thread, as its shard tells them.
import type { NotificationEvent } from '../schema/notifications.ts';
import type { GrantReply, TickReply } from '../store/partition.ts';

export type AttemptEnd = 'completed' | 'retried' | 'failed' | 'returned';

/** Where a shard's numbers go; called for every attempt, so plain functions. */
export interface DeliveryMeter {
  ended(end: AttemptEnd, duration_ms: number): void;
  /** The same of a notification; `lag_ms` is from what it tells of to the end of the call. */
  notified(event: NotificationEvent, end: AttemptEnd, lag_ms: number): void;
  /** From due to sent, by the partition's clock. */
  lag(ms: number): void;
  ticked(reply: TickReply): void;
  granted(reply: GrantReply): void;
  /** References that Redis had in flight here and nobody ran. */
  handed_back(count: number): void;
}
