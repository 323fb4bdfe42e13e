// What every endpoint works with; made once by main.
import type { EgressPolicy } from '../outbound/addresses.ts';
import type { Keep } from '../store/batches.ts';
import type { RedisClient } from '../store/script.ts';
import type { ApiLimits } from './quota.ts';

export interface ApiContext {
  client: RedisClient;
  partitions: number;
  keep: Keep;
  policy: EgressPolicy;
  limits: ApiLimits;
  /** Where the next batch goes: each in turn, so that load spreads. */
  nextPartition(): number;
  /** Where an account's single tasks go for now: the same for a while, so that they share trays. */
  trayPartition(account_id: string): number;
  meter: {
    /** A batch with so many tasks was created. */
    batch(tasks: number): void;
    added(tasks: number): void;
    single(): void;
  };
}
