// What every endpoint works with; made once by main.
import type { EgressPolicy } from '../outbound/addresses.ts';
import type { Keep } from '../store/batches.ts';
import type { Durability } from '../store/durability.ts';
import type { PartitionCount } from '../store/partition-count.ts';
import type { RepairMeter } from '../store/reconcile.ts';
import type { RedisClient } from '../store/script.ts';
import type { Places } from '../store/streams.ts';
import type { BatchReader } from './batch-reader.ts';
import type { PageTurns } from './page-turns.ts';
import type { Placement } from './placement.ts';
import type { Prepared, PrepareRequest } from './prepare.ts';
import type { TrayWriter } from './tray-writer.ts';

/** Requests a minute; 0 = no limit. */
export interface ApiLimits {
  batch_create: number;
  batch_add: number;
  batch_status: number;
}

export interface ApiContext {
  client: RedisClient;
  partitions: PartitionCount;
  keep: Keep;
  policy: EgressPolicy;
  /** Throws 503 while the store has no room for new work. */
  admit(): void;
  /** Prepares a body of many tasks; a large one elsewhere, and its memory may go there with it. */
  prepare(request: PrepareRequest): Prepared | Promise<Prepared>;
  limits: ApiLimits;
  /** How far ahead of its time a scheduled run is made, at most. */
  schedule_lead_ms: number;
  /** null: this process serves no progress streams. */
  streams: (Places & { newName(): string }) | null;
  placement: Placement;
  /** Asked by durable.ts before admitted work is answered. */
  durability: Durability;
  /** Tells limiters of what a request wrote, before it is answered, so that they see requests in their order. Never rejects. */
  relay(partition: number): Promise<void>;
  trays: TrayWriter;
  reads: BatchReader;
  pages: PageTurns;
  meter: {
    /** A batch with so many tasks was created. */
    batch(tasks: number): void;
    added(tasks: number): void;
    single(): void;
    /** A batch was deleted with so many notifications that were not delivered. */
    dropped(batch_id: string, notifications: number): void;
    /** A check found a batch not to be as its tasks say. */
    repaired: RepairMeter;
    /** A run with so many tasks was made by hand. */
    scheduled(tasks: number): void;
    /** A request was answered although no replica has its work. */
    degraded(): void;
  };
}
