// What every endpoint works with; made once by main.
import type { EgressPolicy } from '../outbound/addresses.ts';
import type { Keep } from '../store/batches.ts';
import type { RedisClient } from '../store/script.ts';
import type { ApiLimits } from './quota.ts';
import type { TrayWriter } from './tray-writer.ts';

export interface ApiContext {
  client: RedisClient;
  partitions: number;
  keep: Keep;
  policy: EgressPolicy;
  limits: ApiLimits;
  /** Where the next batch goes: each in turn, so that load spreads. */
  nextPartition(): number;
  trays: TrayWriter;
  meter: {
    /** A batch with so many tasks was created. */
    batch(tasks: number): void;
    added(tasks: number): void;
    single(): void;
  };
}
