// Notices within seconds that an operator has raised the number of partitions.
import { type LimitedLog, type Log, limitedLog } from './base/log.ts';
import type { Service } from './base/service.ts';
import type { Store } from './store/connect.ts';
import { followPartitionCount } from './store/partition-count.ts';

const LOOK_MS = 2_000;

export class PartitionWatch implements Service {
  readonly name = 'partitions';
  readonly #store: Store;
  readonly #log: Log;
  readonly #limited_log: LimitedLog;
  #timer: NodeJS.Timeout | null = null;
  #stopped = false;
  #looking: Promise<void> = Promise.resolve();

  constructor(store: Store, log: Log) {
    this.#store = store;
    this.#log = log;
    this.#limited_log = limitedLog(log);
  }

  async start(): Promise<void> {
    this.#again();
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#looking;
  }

  #again(): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(() => {
      this.#looking = this.#look().then(() => this.#again());
    }, LOOK_MS);
  }

  async #look(): Promise<void> {
    const { client, partition_count } = this.#store;
    const before = partition_count.now;
    try {
      await followPartitionCount(client, partition_count);
    } catch (error) {
      this.#limited_log.warn({ err: error }, 'could not read the number of partitions');
    }
    if (partition_count.now !== before) this.#log.info({ before, now: partition_count.now }, 'there are more partitions');
  }
}
