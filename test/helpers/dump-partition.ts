// Everything that one partition holds, read in one step.
import type { Redis } from 'ioredis';
import { keys } from '../../src/store/keys.ts';

/** A key's type, whether it expires and what it holds; of a segment's pages only how many tasks they have. */
export interface Dumped {
  type: string;
  expires: boolean;
  items: string[];
}

/** What a partition holds, by key without the partition's root. */
export type Dump = ReadonlyMap<string, Dumped>;

const READ_ALL = `
local out = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
  local name = string.sub(key, #ARGV[1] + 1)
  local kind = redis.call('TYPE', key).ok
  local items
  if kind == 'string' then items = { redis.call('GET', key) }
  elseif kind == 'list' then items = redis.call('LRANGE', key, 0, -1)
  elseif kind == 'set' then items = redis.call('SMEMBERS', key)
  elseif kind == 'zset' then items = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  else
    items = redis.call('HGETALL', key)
    if string.find(name, '^b:%w+:[%d+]') then
      for i = 1, #items, 2 do
        if string.find(items[i], '^%d+$') then
          local at, count, page = 1, 0, items[i + 1]
          while at <= #page do
            count = count + 1
            at = at + 4 + struct.unpack('>I4', page, at)
          end
          items[i + 1] = tostring(count)
        end
      end
    end
  end
  out[#out + 1] = { name, kind, redis.call('PTTL', key), items }
end
return out`;

/** Everything that a partition holds, at one moment. Bytes are read as latin1. */
export async function dumpPartition(redis: Redis, partition: number): Promise<Dump> {
  const root = keys.partition(partition).slice(0, -1);
  const rows = (await redis.callBuffer('eval', [READ_ALL, 0, root])) as [Buffer, Buffer, number, Buffer[]][];
  return new Map(
    rows.map(([name, type, ttl_ms, items]) => [
      name.toString('latin1'),
      { type: type.toString(), expires: ttl_ms >= 0, items: items.map((item) => item.toString('latin1')) },
    ]),
  );
}
