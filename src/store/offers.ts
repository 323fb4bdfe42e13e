// Offers to take the next single task as it comes, in the meta hash of a partition (lua/lib/free.lua), and the bell of a partition.
import type { ChainableCommander } from 'ioredis';
import { keys } from './keys.ts';
import type { RedisClient } from './script.ts';
import { partitionOffer } from './scripts.gen.ts';

export type OfferStep = 'make' | 'check' | 'end';

/** `call_no`: the number of the claim that would bring what is handed over. */
export interface Offer {
  does: OfferStep;
  call_no: number;
}

export interface OfferReply {
  now_ms: number;
  /** An offer of the caller stands. */
  stands: boolean;
}

export function queueOffer(
  pipeline: ChainableCommander,
  meta: string,
  { holder, grace_ms }: { holder: string; grace_ms: number },
  { does, call_no }: Offer,
): void {
  partitionOffer.queue(pipeline, { meta }, { does, holder, call_no, grace_ms });
}

export function readOffer(reply: unknown): OfferReply {
  const [now_ms, stands] = reply as [number, number];
  return { now_ms, stands: stands === 1 };
}

/** Takes back the offer of a holder who is gone. */
export async function endOffer(client: RedisClient, partition: number, holder: string): Promise<void> {
  await partitionOffer.call(client, { meta: keys.partition(partition) }, { does: 'end', holder, call_no: 0, grace_ms: 0 });
}

/** Tells who owns the partition that work is ready there (`0`), or when some will be (its clock, ms). A hint: where it is lost he finds that by himself. */
export async function ringBell(client: RedisClient, partition: number, message: string): Promise<void> {
  await client.spublish(keys.bell(partition), message).catch(() => {});
}
