// Reads everything that one partition holds, in one step, and asserts what must be true after every script.
//
// Counters agree with the state bytes; what runs is named by one holder, what waits is queued once, what is over neither;
// rings, gauges and lists agree with what they are made from; nothing that a live batch needs has an expiry.
import assert from 'node:assert/strict';
import type { Redis } from 'ioredis';
import { checkLimitedGauges, hash } from './check-lanes.ts';
import { type Dump, dumpPartition } from './dump-partition.ts';

/** A batch as the checks see it. */
export interface CheckedBatch {
  core: string;
  account: string;
  status: string;
  n: number;
  c: number;
  f: number;
  x: number;
  r: number;
  updated_ms: number;
  states: string;
  /** Rounds after the first, and the tasks that the last one has not reached. */
  round: number;
  undealt: readonly [from: number, to: number] | null;
}

interface Entry {
  core: string;
  from: number;
  to: number;
  attempts: number;
  due_ms: number;
  limited: boolean;
}

const LIVE = new Set(['pending', 'processing', 'tray', 'notes']);
const STATUSES = ['pending', 'processing', 'completed', 'failed', 'expired', 'cancelled'];
const CLASSES = ['f', 'r', 'n'];

/** Asserts the invariants of a partition; returns its batches, by core. */
export async function checkPartition(redis: Redis, partition: number): Promise<Map<string, CheckedBatch>> {
  const dump = await dumpPartition(redis, partition);
  const batches = readBatches(dump);
  const beside = besides(dump);
  const account_lists = [...dump.keys()].filter((name) => /^a:\w+:b(:\w+)?$/.test(name)).sort();
  for (const batch of batches.values()) {
    if (batch.status !== 'deleted') {
      checkCounters(batch);
      checkStored(dump, batch, beside.get(batch.core) ?? []);
    }
    checkPlaces(dump, batch, account_lists);
  }
  checkNoStrangers(dump, batches);
  checkActive(dump, batches);
  checkRings(dump);
  checkQueue(dump, batches);
  return batches;
}

/** What lies beside each batch, named by what follows `b:<core>:`. */
function besides(dump: Dump): Map<string, string[]> {
  const names = new Map<string, string[]>();
  for (const key of dump.keys()) {
    const [, core = '', name = ''] = /^b:(\w+):(.*)$/.exec(key) ?? [];
    if (core === '') continue;
    const beside = names.get(core);
    if (beside === undefined) names.set(core, [name]);
    else beside.push(name);
  }
  return names;
}

function list(dump: Dump, key: string): readonly string[] {
  return dump.get(key)?.items ?? [];
}

function readBatches(dump: Dump): Map<string, CheckedBatch> {
  const batches = new Map<string, CheckedBatch>();
  for (const name of dump.keys()) {
    const core = /^b:(\w+)$/.exec(name)?.[1];
    if (core === undefined) continue;
    const fields = hash(dump, name);
    const number = (field: string): number => {
      const text = fields.get(field) ?? '';
      assert.match(text, /^\d+$/, `${core}: field ${field} is a whole number`);
      return Number(text);
    };
    const [n, c, f, x, r] = ['n', 'c', 'f', 'x', 'r'].map(number) as [number, number, number, number, number];
    const updated_ms = number('u');
    const states = dump.get(`${name}:s`)?.items[0] ?? '';
    const [from, to] = (fields.get('o') ?? '').split(',').map(Number);
    const undealt = from === undefined || to === undefined ? null : ([from, to] as const);
    const round = Number(fields.get('k') ?? '0');
    const rounds = { round, undealt };
    batches.set(core, {
      core,
      account: fields.get('a') ?? '',
      status: fields.get('s') ?? '',
      n,
      c,
      f,
      x,
      r,
      updated_ms,
      states,
      ...rounds,
    });
  }
  return batches;
}

/** total = pending + completed + failed + cancelled, and the bytes say the same. */
function checkCounters(batch: CheckedBatch): void {
  const { core, status, n, c, f, x, r, states } = batch;
  const say = JSON.stringify(batch);
  const pending = n - c - f - x;
  assert.ok(pending >= r && r >= 0, `${core}: pending ${pending}, running ${r}: ${say}`);
  assert.equal(states.length, n, `${core}: one state byte a task: ${say}`);
  const count = { q: 0, r: 0, p: 0, P: 0, c: 0, f: 0, x: 0, e: 0 };
  for (let i = 0; i < states.length; i++) {
    const byte = waitsUndealt(batch, i) ? 'r' : (states[i] ?? '');
    assert.ok(byte in count, `${core}: a byte ${byte} in ${states}`);
    count[byte as keyof typeof count] += 1;
  }
  const waiting = count.q + count.r;
  assert.equal(count.p + count.P, r, `${core}: running: ${say}`);
  assert.equal(count.c, c, `${core}: completed: ${say}`);
  assert.equal(count.f + count.e + (status === 'expired' ? waiting : 0), f, `${core}: failed: ${say}`);
  assert.equal(count.x + (status === 'cancelled' ? waiting : 0), x, `${core}: cancelled: ${say}`);
  if (status === 'tray' || status === 'notes') return;
  assert.ok(STATUSES.includes(status), `${core}: status ${status}`);
  if (status === 'pending') assert.ok(r === 0 && c === 0, `${core}: pending, and something has started: ${say}`);
  if (status === 'completed') assert.ok(pending === 0 && f === 0 && c > 0, say);
  if (status === 'failed') assert.ok(pending === 0 && f > 0, say);
  if (status === 'cancelled' || status === 'expired') assert.equal(pending, r, `${core}: what waited is over: ${say}`);
}

/** What says failed where a round has not come yet waits for it. */
function waitsUndealt({ undealt, states }: CheckedBatch, i: number): boolean {
  return undealt !== null && i >= undealt[0] && i <= undealt[1] && /[qrfe]/.test(states[i] ?? '');
}

/** Attempts of a round are counted from here on; as lua/lib/batch.lua has it. */
const ROUND_ATTEMPTS = 100;

/** Its segments hold every task, stay for ever, and nothing else lies beside them. */
function checkStored(dump: Dump, batch: CheckedBatch, beside: readonly string[]): void {
  const fields = hash(dump, `b:${batch.core}`);
  const bases = basesOf(fields.get('g'));
  for (const [k, base] of bases.entries()) {
    const key = `b:${batch.core}:${base}`;
    const left = batch.status === 'notes' ? batch.x : 0; // of the log, by pages
    const expected = (bases[k + 1] ?? batch.n) - base - left;
    const pages = [...hash(dump, key)].filter(([field]) => /^\d+$/.test(field)).sort(([a], [b]) => Number(a) - Number(b));
    const held = pages.reduce((sum, [, count]) => sum + Number(count), 0);
    assert.equal(held, expected, `${key} holds its tasks`);
    for (const [at, [field, count]] of pages.entries()) {
      if (left === 0) assert.equal(Number(field), at, `${key}: pages follow one another`);
      if (at < pages.length - 1) assert.equal(Number(count), 16, `${key}: page ${field} is full`);
    }
    assert.ok(expected <= 1000 || batch.status === 'notes', `${key} has ${expected} tasks`);
  }
  for (const name of ['', ':s', ':k', ...bases.map((base) => `:${base}`)]) {
    assert.notEqual(dump.get(`b:${batch.core}${name}`)?.expires, true, `b:${batch.core}${name} would expire`);
  }
  const known = new Set(bases.map(String));
  for (const name of beside) {
    const key = `b:${batch.core}:${name}`;
    if (/^\d+$/.test(name)) assert.ok(known.has(name), `${key} belongs to no segment of its batch`);
    else if (name.startsWith('+')) assert.ok(dump.get(key)?.expires, `${key} is staged and would stay for ever`);
  }
}

function basesOf(packed: string | undefined): number[] {
  if (packed === undefined) return [0];
  const bytes = Buffer.from(packed, 'latin1');
  return Array.from({ length: bytes.length / 4 }, (_, k) => bytes.readUInt32BE(k * 4));
}

/** Exactly the lists that its status says, and `deadlines` by what comes next. */
function checkPlaces(dump: Dump, batch: CheckedBatch, account_lists: readonly string[]): void {
  const { core, account, status } = batch;
  const fields = hash(dump, `b:${core}`);
  const lists = account_lists.filter((name) => hash(dump, name).has(core));
  const shown = status !== 'tray' && status !== 'notes' && status !== 'deleted';
  assert.deepEqual(lists, shown ? [`a:${account}:b`, `a:${account}:b:${status}`] : [], `${core} (${status}) is in its lists`);
  for (const name of lists) assert.equal(hash(dump, name).get(core), fields.get('t'), `${name}: by creation time`);
  const deadline = hash(dump, 'deadlines').get(core);
  const over = batch.n === batch.c + batch.f + batch.x;
  if (status === 'deleted') {
    assert.ok(deadline !== undefined, `${core} is deleted and nobody would go on`);
  } else if (status === 'notes') {
    assert.equal(deadline, undefined, `${core} goes with its batch`);
  } else if (status === 'tray') {
    assert.equal(deadline !== undefined, over, `tray ${core} is kept for a while once it is over: ${JSON.stringify(batch)}`);
  } else if (LIVE.has(status)) {
    assert.equal(deadline, fields.get('e'), `${core} expires`);
    if (over) assert.equal(fields.get('h'), '1', `${core} is over and still ${status}`);
    assert.equal(fields.get('z'), undefined, `${core} is ${status} and finished`);
  } else {
    assert.equal(deadline !== undefined, over, `${core} (${status}) is kept for a while once nothing runs`);
    assert.equal(fields.has('z'), over, `${core} (${status}) has finished once nothing runs`);
  }
}

function checkNoStrangers(dump: Dump, batches: Map<string, CheckedBatch>): void {
  for (const [name, { expires, items }] of dump) {
    const core = /^b:(\w+):/.exec(name)?.[1];
    const [, of = ''] = /^b:(\w{18})n$/.exec(name) ?? [];
    if (of !== '') assert.ok(batches.has(of), `${name} is left of a batch that is gone`);
    if (core !== undefined && !expires) assert.ok(batches.has(core), `${name} is left of a batch that is gone`);
    if (/^a:\w+:b(:\w+)?$/.test(name)) {
      for (let i = 0; i < items.length; i += 2) assert.ok(batches.has(items[i] ?? ''), `${name} names ${items[i]}, which is gone`);
    }
  }
}

const MEMBER = /^(\w+),(\d+),(\d+),(\d+),(\d+),(\d+),([frn]:\w+:[\w*]+)(;\w+,\w!?,\d+,\d+,\d+,\d+,\d+,\d+)?$/;

/** Each byte in flight belongs to one name of one holder, and each name has one. */
function checkActive(dump: Dump, batches: Map<string, CheckedBatch>): void {
  const owned = new Map<string, string>();
  const holders = hash(dump, 'holders');
  for (const [name, { items }] of dump) {
    if (!name.startsWith('active:')) continue;
    assert.ok(holders.has(name.slice('active:'.length)), `${name}: its holder is watched`);
    for (let i = 0; i < items.length; i += 2) {
      const [, core = '', from_text, to_text] = MEMBER.exec(items[i] ?? '') ?? assert.fail(`${name}: ${items[i]}`);
      const [from, to] = [Number(from_text), Number(to_text)];
      const batch = batches.get(core);
      if (batch === undefined) continue;
      let flying = 0;
      for (let k = from; k <= to; k++) {
        const byte = batch.states[k] ?? '';
        if (byte !== 'p' && !(byte === 'P' && from === to)) continue;
        flying += 1;
        const place = `${core},${k}`;
        assert.equal(owned.get(place), undefined, `${place} is held by ${items[i]} of ${name}, and`);
        owned.set(place, `${items[i]} of ${name}`);
      }
      assert.ok(flying > 0, `${name}: nothing of ${items[i]} is in flight: ${batch.states.slice(from, to + 1)}`);
    }
  }
  for (const { core, states, r } of batches.values()) {
    let held = 0;
    for (let k = 0; k < states.length; k++) if (owned.has(`${core},${k}`)) held += 1;
    assert.equal(held, r, `${core}: everything that runs is held by someone: ${states.slice(0, 200)}`);
  }
}

/** An account is in a class's ring where its own ring has a flow; a flow with entries is in that, or parked with its origin. */
function checkRings(dump: Dump): void {
  const parked = new Set<string>();
  const origins: string[] = [];
  for (const [name, { items }] of dump) {
    if (!name.startsWith('parked:')) continue;
    const origin = name.slice('parked:'.length);
    origins.push(origin);
    for (const flow of items) {
      assert.ok(dump.has(`f:${flow}:${origin}`), `${flow}:${origin} is parked and has nothing`);
      parked.add(`${flow}:${origin}`);
    }
  }
  assert.deepEqual([...list(dump, 'parked')].sort(), origins.sort(), 'origins with parked flows');
  for (const cls of CLASSES) {
    const filled = new Map<string, string[]>();
    for (const name of dump.keys()) {
      const [, account = '', origin = ''] = new RegExp(`^f:${cls}:(\\w+):([\\w*]+)$`).exec(name) ?? [];
      if (account === '' || parked.has(name.slice(2))) continue;
      filled.set(account, [...(filled.get(account) ?? []), origin]);
    }
    const accounts = list(dump, `ready:${cls}`);
    assert.deepEqual([...accounts].sort(), [...filled.keys()].sort(), `ring of accounts, class ${cls}`);
    for (const [account, origins] of filled) {
      assert.deepEqual([...list(dump, `ready:${cls}:${account}`)].sort(), origins.sort(), `ring of flows of ${account}, class ${cls}`);
    }
    const rings = [...dump.keys()].filter((name) => name.startsWith(`ready:${cls}:`));
    assert.equal(rings.length, filled.size, `no ring without flows, class ${cls}: ${rings.join(' ')}`);
  }
}

const ENTRY = /^(\w+),(\d+),(\d+),(\d+),(\d+),(\d+),(\d+)(;\w+,\w!?,\d+,\d+,\d+(,\d+,\d+,\d+)?)?$/;

function readEntry(text: string): Entry {
  const [, core = '', from, to, attempts, , , due_ms, limit] = ENTRY.exec(text) ?? assert.fail(`an entry ${text}`);
  return { core, from: Number(from), to: Number(to), attempts: Number(attempts), due_ms: Number(due_ms), limited: limit !== undefined };
}

/** Every task of a live batch that waits is queued once; what runs or is over is not. Gauges count what lists hold. */
function checkQueue(dump: Dump, batches: Map<string, CheckedBatch>): void {
  const covered = new Map([...batches].map(([core, { n }]) => [core, new Uint8Array(n)]));
  const depth: Record<string, number> = { f: 0, r: 0, n: 0 };
  const cover = (entry: Entry, flow: string): void => {
    const [cls = '', account, origin] = flow.split(':');
    const batch = batches.get(entry.core);
    const seen = covered.get(entry.core);
    if (batch === undefined || seen === undefined) return;
    if (Math.floor(entry.attempts / ROUND_ATTEMPTS) !== batch.round) return; // left of a round before
    assert.equal(account, batch.account, `flow ${flow} of ${entry.core}`);
    assert.ok(entry.from <= entry.to && entry.to < batch.n, `${flow}: ${JSON.stringify(entry)} of ${batch.n} tasks`);
    const places = origin === '*' ? mapped(dump, batch, entry) : range(entry.from, entry.to);
    for (const i of places) {
      const byte = batch.states[i];
      seen[i] = (seen[i] ?? 0) + 1;
      // A failover can bring back an entry whose task a limiter has let go since.
      if (!LIVE.has(batch.status) || entry.limited) continue;
      const first: string = `${batch.status === 'notes' ? 'n' : 'f'}${batch.round * ROUND_ATTEMPTS}`;
      if (byte === 'q') assert.equal(`${cls}${entry.attempts}`, first, `${entry.core},${i} never started`);
      const waits = byte === 'q' || byte === 'r' || waitsUndealt(batch, i);
      assert.ok(waits || byte === 'x', `${entry.core},${i} is queued and ${byte}`);
    }
  };
  for (const [name, { items }] of dump) {
    if (!/^f:[frn]:/.test(name)) continue;
    assert.ok(items.length > 0);
    for (const text of items) {
      const entry = readEntry(text);
      const cls = name[2] ?? '';
      depth[cls] = (depth[cls] ?? 0) + entry.to - entry.from + 1;
      cover(entry, name.slice(2));
    }
  }
  for (const [text, score] of hash(dump, 'delayed')) {
    const bar = text.indexOf('|');
    const entry = readEntry(text.slice(bar + 1));
    assert.equal(entry.due_ms, Number(score), `${text} is due when it says`);
    cover(entry, text.slice(0, bar));
  }
  const held = limited(dump);
  for (const batch of batches.values()) {
    const { core, status, states } = batch;
    if (!LIVE.has(status)) continue;
    const seen = covered.get(core);
    for (let i = 0; i < states.length; i++) {
      const waits = states[i] === 'q' || states[i] === 'r' || waitsUndealt(batch, i);
      if (waits && held.get(core)?.has(i))
        assert.ok((seen?.[i] ?? 0) <= 1, `${core},${i} is held by a limiter, and queued ${seen?.[i]} times`);
      else if (waits) assert.equal(seen?.[i], 1, `${core},${i} (${states[i]}) waits and is queued once`);
      else assert.ok((seen?.[i] ?? 0) <= 1, `${core},${i} (${states[i]}) is queued ${seen?.[i]} times`);
    }
  }
  const meta = hash(dump, 'm');
  checkLimitedGauges(dump);
  for (const cls of CLASSES) assert.equal(Number(meta.get(`ready:${cls}`) ?? '0'), depth[cls], `gauge of class ${cls}`);
}

/** Tasks that are granted, or that a lane of a limiter should hold; more than do, since a range is remembered whole until its last task is granted. */
function limited(dump: Dump): Map<string, Set<number>> {
  const held = new Map<string, Set<number>>();
  const away = [...hash(dump, 'away').values()].map((value) => value.slice(value.indexOf(' ') + 1));
  for (const text of [...away, ...hash(dump, 'granted').keys()]) {
    const { core, from, to } = readEntry(text.slice(text.indexOf('|') + 1));
    const places = held.get(core) ?? new Set();
    held.set(core, places);
    for (const i of range(from, to)) places.add(i);
  }
  assert.deepEqual([...hash(dump, 'away').keys()].sort(), [...hash(dump, 'away:since').keys()].sort(), 'everything away has its time');
  return held;
}

function range(from: number, to: number): number[] {
  return Array.from({ length: Math.max(0, to - from + 1) }, (_, k) => from + k);
}

/** Tasks that an entry of the flow `*` stands for, by the maps of its segments. */
function mapped(dump: Dump, batch: CheckedBatch, entry: Entry): number[] {
  const bases = basesOf(hash(dump, `b:${batch.core}`).get('g'));
  const places: number[] = [];
  for (const [k, base] of bases.entries()) {
    const end = (bases[k + 1] ?? batch.n) - 1;
    if (end < entry.from || base > entry.to) continue;
    const map = hash(dump, `b:${batch.core}:${base}`).get('m') ?? assert.fail(`${batch.core}: segment ${base} has no map`);
    for (const run of map.split(';').slice(0, -1)) {
      const [from = 0, to = 0] = run.split(',').map(Number);
      places.push(...range(Math.max(entry.from, from + base), Math.min(entry.to, to + base)));
    }
  }
  const { undealt } = batch;
  if (undealt === null || entry.from < undealt[0] || entry.from > undealt[1]) return places;
  return places.filter((i) => waitsUndealt(batch, i));
}
