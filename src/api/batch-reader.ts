// Reads batches in groups: what comes in during one turn of the event loop goes to Redis together, one call a partition, and a
// batch that many ask for is read once. Nobody waits for it: the call leaves as soon as all that has come in was looked at.
import { partitionOf } from '../base/id.ts';
import { READ_GROUP_MAX } from '../base/limits.ts';
import { type AskedBatch, type BatchRead, readTogether } from '../store/listing.ts';
import type { RedisClient } from '../store/script.ts';

interface Waiting {
  done(read: BatchRead): void;
  failed(error: unknown): void;
}

/** What is to be read of one partition, by account and batch. */
interface Group {
  batches: Map<string, AskedBatch & { waiting: Waiting[] }>;
  asking: number;
}

export interface BatchReaderDeps {
  client: RedisClient;
  /** Reads of one batch a minute; 0 = no limit. */
  limit: number;
}

export class BatchReader {
  readonly #deps: BatchReaderDeps;
  /** By partition. */
  #groups = new Map<number, Group>();

  constructor(deps: BatchReaderDeps) {
    this.#deps = deps;
  }

  /** The batch as it stands after this call, within the limit on reads. */
  read(account_id: string, core: string): Promise<BatchRead> {
    return new Promise((done, failed) => {
      const partition = partitionOf(core);
      if (this.#groups.size === 0) setImmediate(() => this.#sendAll());
      const group = this.#groups.get(partition) ?? { batches: new Map(), asking: 0 };
      this.#groups.set(partition, group);
      const name = `${account_id} ${core}`;
      const batch = group.batches.get(name) ?? { account_id, core, asking: 0, waiting: [] };
      group.batches.set(name, batch);
      batch.asking = batch.waiting.push({ done, failed });
      group.asking += 1;
      if (group.asking < READ_GROUP_MAX) return;
      // The next one of this partition begins a group of its own.
      this.#groups.set(partition, { batches: new Map(), asking: 0 });
      void this.#send(partition, group);
    });
  }

  #sendAll(): void {
    const groups = this.#groups;
    this.#groups = new Map();
    for (const [partition, group] of groups) if (group.asking > 0) void this.#send(partition, group);
  }

  async #send(partition: number, group: Group): Promise<void> {
    const asked = [...group.batches.values()];
    try {
      const reads = await readTogether(this.#deps.client, partition, asked, this.#deps.limit);
      for (const [at, { waiting }] of asked.entries()) {
        for (const [i, read] of (reads[at] ?? []).entries()) waiting[i]?.done(read);
      }
    } catch (error) {
      for (const { waiting } of asked) for (const { failed } of waiting) failed(error);
    }
  }
}
