// How many partitions there are. The number is kept in Redis and grows while processes run (`sluice partitions grow`);
// every process looks for it now and then. It never shrinks: ids carry their partition.
import { keys } from './keys.ts';
import { preparePartitions } from './partition.ts';
import type { RedisClient } from './script.ts';
import { installationGrow } from './scripts.gen.ts';
import { PARTITIONS_MAX } from './tags.ts';

/** The number as one process knows it. */
export class PartitionCount {
  /** As it was at the first start of all: idempotency keys are placed by it for ever, see idempotencyPartition. */
  readonly first: number;
  #now: number;

  constructor(now: number, first: number = now) {
    this.#now = now;
    this.first = first;
  }

  get now(): number {
    return this.#now;
  }

  /** Takes over what Redis has; what would be less is a reply that came late. */
  raise(count: number): void {
    if (Number.isInteger(count) && count > this.#now && count <= PARTITIONS_MAX) this.#now = count;
  }
}

/** Reads the number into `known`. */
export async function followPartitionCount(client: RedisClient, known: PartitionCount): Promise<void> {
  known.raise(Number(await client.hget(keys.meta(), 'partitions')));
}

export type GrowOutcome = { kind: 'grown'; from: number; to: number } | { kind: 'refused'; reason: string };

/** Raises the number to `wanted`, after everything that the new partitions need is there. */
export async function growPartitions(client: RedisClient, wanted: number): Promise<GrowOutcome> {
  const stored = Number(await client.hget(keys.meta(), 'partitions'));
  if (wanted > PARTITIONS_MAX) return { kind: 'refused', reason: `There can be ${PARTITIONS_MAX} partitions at most.` };
  if (wanted <= stored) return { kind: 'refused', reason: tooFew(stored) };
  await preparePartitions(client, wanted);
  const [from, to] = await installationGrow.call(client, { shared: keys.meta() }, { wanted });
  return from < wanted ? { kind: 'grown', from, to } : { kind: 'refused', reason: tooFew(from) };
}

function tooFew(stored: number): string {
  return `There are ${stored} partitions already, and their number can only grow.`;
}
