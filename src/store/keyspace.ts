// All keys of the partitions, a page at a time: what no list names any more is found by nothing else.
import { Cluster } from 'ioredis';
import { partitionOfRoot } from './keys.ts';
import type { RedisClient } from './script.ts';

/** Keys that one SCAN looks at: about a millisecond of Redis. */
const SCAN_COUNT = 1_000;

/** Names without their root, by partition. */
type Page = ReadonlyMap<number, readonly string[]>;

/** Every key that is there all the time comes at least once. Slots on their way to another node may be missed. */
export async function* scanPartitions(client: RedisClient): AsyncGenerator<Page, void, undefined> {
  for (const node of client instanceof Cluster ? client.nodes('master') : [client]) {
    let cursor = '0';
    do {
      const [next, names] = await node.scan(cursor, 'MATCH', 'sluice:{p*', 'COUNT', SCAN_COUNT);
      const page = new Map<number, string[]>();
      for (const name of names) {
        const end = name.indexOf('}:') + 2;
        const partition = partitionOfRoot(name.slice(0, end));
        if (partition === null) continue;
        const list = page.get(partition);
        if (list === undefined) page.set(partition, [name.slice(end)]);
        else list.push(name.slice(end));
      }
      yield page;
      cursor = next;
    } while (cursor !== '0');
  }
}
