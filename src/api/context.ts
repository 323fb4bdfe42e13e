// What every endpoint works with; made once by main.
import type { EgressPolicy } from '../outbound/addresses.ts';
import type { Keep } from '../store/batches.ts';
import type { Durability } from '../store/durability.ts';
import type { RedisClient } from '../store/script.ts';
import type { ApiLimits } from './quota.ts';
import type { Placement } from './placement.ts';
import type { TrayWriter } from './tray-writer.ts';

export interface ApiContext {
  client: RedisClient;
  partitions: number;
  keep: Keep;
  policy: EgressPolicy;
  limits: ApiLimits;
  placement: Placement;
  /** Whether what was just written to a partition is as safe as the setting DURABILITY asks; throws where it may not be. */
  durability: Durability;
  trays: TrayWriter;
  meter: {
    /** A batch with so many tasks was created. */
    batch(tasks: number): void;
    added(tasks: number): void;
    single(): void;
  };
}
