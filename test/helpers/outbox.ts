// A script that writes messages, as those of limiters do, and what a partition holds of the outbox's protocol.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { compileTree } from '../../scripts/gen-lua.ts';
import { base62 } from '../../src/base/id.ts';
import { keys } from '../../src/store/keys.ts';
import { type RedisClient, type RestValue, script } from '../../src/store/script.ts';

/**
 * `hand` makes a batch of one task, named by the reference, and gives it to a lane; `drop` ends that batch; `odd` is of a kind
 * that nobody knows.
 */
export type Verb = 'hand' | 'drop' | 'odd';
export type Send = readonly [verb: Verb, lane: string, ref: string];

const APPEND = `-- Changes a partition, and tells others.
-- @key   meta    hash  {pN}:m
-- @arg   now_ms  now
-- @rest  sends         of each: verb, lane, core of a batch
-- @reply number        last sequence
-- @include lib/limited
local changed = {}
for i = 1, #sends, 3 do
  local verb, lane, core = sends[i], sends[i + 1], sends[i + 2]
  if verb == 'odd' then outbox_send(now_ms, partition_of(lane), 'odd', lane .. ' ' .. core) end
  if verb == 'hand' then
    outbox_hand(now_ms, lane, 'f:acme:o1|' .. entry_of(core, 0, 0, 0, 0, 30, now_ms, string.format(';%s,w,1,%.0f,0', lane, now_ms)))
    changed[core] = 'pending'
  end
  if verb == 'drop' then
    outbox_send(now_ms, partition_of(lane), 'drop', lane .. ' ' .. core)
    changed[core] = 'cancelled'
  end
end
for core, status in pairs(changed) do
  local key = root .. 'b:' .. core
  call('HSET', key, 'a', 'acme', 's', status, 'n', 1, 'c', 0, 'f', 0, 'x', status == 'cancelled' and 1 or 0, 'r', 0, 'v', 1, 't', now_ms, 'e', now_ms)
  call('SET', key .. ':s', 'q')
end
outbox_write()
return outbox_last
`;

const compiled = compileAppend();
const appendScript = script<{ meta: string }, { now_ms?: number; sends: readonly RestValue[] }, number>(compiled);

function compileAppend(): ReturnType<typeof compileTree>[number] {
  const root = mkdtempSync(join(tmpdir(), 'sluice-lua-'));
  try {
    mkdirSync(join(root, 'lua', 'test'), { recursive: true });
    symlinkSync(new URL('../../lua/lib', import.meta.url).pathname, join(root, 'lua', 'lib'));
    writeFileSync(join(root, 'lua', 'test', 'append.lua'), APPEND);
    const [one] = compileTree(root);
    assert.ok(one);
    return one;
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

/** Writes messages in one script; returns the last one's sequence. */
export function append(client: RedisClient, source: number, sends: readonly Send[]): Promise<number> {
  const named = sends.flatMap(([verb, lane, ref]) => [verb, lane, coreOf(source, ref)]);
  return appendScript.call(client, { meta: keys.partition(source) }, { sends: named });
}

/** The batch that a reference stands for. */
export function coreOf(source: number, ref: string): string {
  return `${base62(source, 2)}${ref}xx`;
}

/** What its lane calls it. */
export function rangeOf(source: number, ref: string): string {
  return `${coreOf(source, ref)},0,0`;
}

/** A lane of a partition. */
export function laneOf(partition: number, name = 'lane'): string {
  return base62(partition, 2) + name.padEnd(16, '0');
}

/** What one partition knows of messages; everything but `hw`, `lanes` and the like is empty at rest. */
export interface Held {
  /** Messages that wait, in their order, by destination. */
  outbox: Record<string, string[]>;
  /** `<lane> <range>` → sequence and entry. */
  away: Record<string, string>;
  since: Record<string, number>;
  hw: Record<string, string>;
  /** References in their order, by lane. */
  lanes: Record<string, string[]>;
}

function refIn(range: string): string {
  return range.slice(2, range.indexOf('xx,'));
}

const READ = `
local out = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
  local kind = redis.call('TYPE', key).ok
  if kind == 'hash' then out[#out + 1] = { string.sub(key, #ARGV[1] + 1), redis.call('HGETALL', key) }
  elseif kind == 'zset' then out[#out + 1] = { string.sub(key, #ARGV[1] + 1), redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') } end
end
return out`;

/** Reads that at one moment, and checks that its parts agree with one another. */
export async function readHeld(client: RedisClient, partition: number): Promise<Held> {
  const meta = keys.partition(partition);
  // With the declared key, a Cluster client finds the node.
  const rows = (await client.eval(READ, 1, meta, meta.slice(0, -1))) as [string, string[]][];
  const held: Held = { outbox: {}, away: {}, since: {}, hw: {}, lanes: {} };
  let waiting: Record<string, number> = {};
  const scores: Record<string, number> = {};
  for (const [name, items] of rows) {
    const pairs = Array.from({ length: items.length / 2 }, (_, i) => [items[2 * i] ?? '', items[2 * i + 1] ?? ''] as const);
    const numbers = (): Record<string, number> => Object.fromEntries(pairs.map(([key, value]) => [key, Number(value)]));
    const [head = '', rest = ''] = name.split(/:(.*)/);
    if (name === 'outbox') waiting = numbers();
    else if (name === 'away') held.away = Object.fromEntries(pairs);
    else if (name === 'away:since') held.since = numbers();
    else if (name === 'hw') held.hw = Object.fromEntries(pairs);
    else if (head === 'lane' && rest.endsWith(':q')) held.lanes[rest.slice(0, -2)] = pairs.map(([range]) => refIn(range));
    else if (head === 'outbox') {
      held.outbox[rest] = pairs.map(([message]) => message);
      scores[rest] = Number(pairs[0]?.[1]);
      for (const [message, score] of pairs)
        assert.equal(message.split(' ')[0], BigInt(Number(score)).toString(), 'messages lie by sequence');
    }
  }
  assert.deepEqual(waiting, scores, 'destinations with messages, by the first one');
  assert.deepEqual(Object.keys(held.since).sort(), Object.keys(held.away).sort(), 'everything away has its time');
  return held;
}
