// Hash tags whose slots are spread evenly over a Cluster, for every power of two of them.
//
// Redis Cluster puts a key into slot CRC16(tag) mod 16384, and masters own ranges of slots. Plain tags {p0}…{p15}
// fall 4/5/7 on three masters; here tag n lies in the n-th of the ranges taken in bit-reversed order, so the first
// 2^k tags are always 16384/2^k slots apart. The text of a tag is found by search and never changes: keys depend on it.

const SLOTS = 16_384;
const SUFFIX_DIGITS = '0123456789abcdefghijklmnopqrstuvwxyz';

/** The largest number of partitions; it bounds the id format (two base-62 digits) and the tag table. */
export const PARTITIONS_MAX = 1024;
/** Home slots, fixed for ever: what belongs to an account is found by its hash alone. */
export const HOMES = 256;

const CRC_TABLE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
  return crc & 0xffff;
});

/** The slot of a hash tag: CRC16 (XMODEM) mod 16384, as in the Redis Cluster specification. */
export function slotOf(tag: string): number {
  let crc = 0;
  for (let i = 0; i < tag.length; i++) crc = ((crc << 8) & 0xffff) ^ (CRC_TABLE[(crc >> 8) ^ tag.charCodeAt(i)] ?? 0);
  return crc % SLOTS;
}

/** The slot of a key with a hash tag. */
export function slotOfKey(key: string): number {
  return slotOf(key.slice(key.indexOf('{') + 1, key.indexOf('}')));
}

/** `n` of `of` (a power of two) → the tag `<kind><n>.<suffix>` in the slot range that belongs to it. */
function findTag(kind: string, n: number, of: number): string {
  const bits = Math.log2(of);
  let reversed = 0;
  for (let bit = 0; bit < bits; bit++) reversed |= ((n >> bit) & 1) << (bits - 1 - bit);
  const width = SLOTS / of;
  for (let k = 0; ; k++) {
    const tag = `${kind}${n}.${suffix(k)}`;
    if (Math.floor(slotOf(tag) / width) === reversed) return tag;
  }
}

function suffix(k: number): string {
  let text = '';
  for (let rest = k + 1; rest > 0; rest = Math.floor((rest - 1) / 36)) text = SUFFIX_DIGITS[(rest - 1) % 36] + text;
  return text;
}

const cache = new Map<string, string>();

function tag(kind: string, n: number, of: number): string {
  const name = kind + n;
  let found = cache.get(name);
  if (found === undefined) {
    found = findTag(kind, n, of);
    cache.set(name, found);
  }
  return found;
}

/** Tag of partition `n`, 0 ≤ n < PARTITIONS_MAX. */
export function partitionTag(n: number): string {
  return tag('p', n, PARTITIONS_MAX);
}

/** Tag of home slot `n`, 0 ≤ n < HOMES. */
export function homeTag(n: number): string {
  return tag('h', n, HOMES);
}
