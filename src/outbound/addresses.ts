// The guard against targets inside our own network: which addresses, ports and host names a callback may go to.
// Pure: no look-up is made here. `checkTarget` answers early, when a target is accepted; the gate that counts is the
// connector, which asks `addressVerdict` about the very addresses it is going to dial.
//
// Addresses are 16 bytes, IPv4 as ::ffff:a.b.c.d, parsed here: Node's BlockList unwraps neither NAT64 nor IPv4-compatible ones.

import { isHostName } from '../base/host-name.ts';

/** Which targets are allowed beyond, or refused below, the table of this file. */
export interface EgressPolicy {
  /** Switches the table and the rules on names and ports off; `deny` still holds. */
  allow_private: boolean;
  /** Exceptions to the table. */
  allow: readonly Block[];
  /** Additions to the table; they win over `allow`. */
  deny: readonly Block[];
}

/** A range of addresses. */
export interface Block {
  bytes: Uint8Array;
  /** Leading bits that count, of 128. */
  prefix_bits: number;
}

export type AddressVerdict = 'ok' | 'blocked';
export type TargetVerdict = 'ok' | 'blocked' | 'bad_host';

/** Reads the two lists; throws on text that is no CIDR block, naming it. */
export function egressPolicy(options: {
  allow_private: boolean;
  allow_cidrs: readonly string[];
  deny_cidrs: readonly string[];
}): EgressPolicy {
  return { allow_private: options.allow_private, allow: options.allow_cidrs.map(blockOrThrow), deny: options.deny_cidrs.map(blockOrThrow) };
}

/** May this URL be a target at all? `bad_host`: not an http(s) URL with a usable host; `blocked`: private, reserved or a closed port. */
export function checkTarget(url: string | URL, policy: EgressPolicy): TargetVerdict {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    return 'bad_host';
  }
  if (parsed.protocol !== 'http:' && parsed.protocol !== 'https:') return 'bad_host';
  if (parsed.username !== '' || parsed.password !== '') return 'bad_host';
  const host = hostVerdict(parsed.hostname, policy);
  return host === 'ok' && isBadPort(parsed.port, policy) ? 'blocked' : host;
}

/** The same for a host alone, as the URL parser left it (`URL.hostname`: 0x7f.1 and full-width digits have become 127.0.0.1). */
export function hostVerdict(hostname: string, policy: EgressPolicy): TargetVerdict {
  const literal = parseAddress(hostname);
  if (literal !== null) return addressVerdict(literal, policy);
  const name = hostname.toLowerCase().replace(/\.$/, '');
  if (!isHostName(name)) return 'bad_host';
  if (policy.allow_private) return 'ok';
  if (name === 'localhost' || name.endsWith('.localhost'))
    return LOOPBACK.some((a) => addressVerdict(a, policy) === 'ok') ? 'ok' : 'blocked';
  const internal = !name.includes('.') || name.endsWith('.local') || name.endsWith('.internal');
  // With exceptions configured an internal name may be one of them: only its addresses can tell, when they are dialed.
  return internal && policy.allow.length === 0 ? 'blocked' : 'ok';
}

/** Ports that browsers refuse too (WHATWG fetch, "bad port"): a request there talks to a mail server or the like. As `URL.port` shows them. */
const BAD_PORTS: ReadonlySet<string> = new Set(
  (
    '0 1 7 9 11 13 15 17 19 20 21 22 23 25 37 42 43 53 69 77 79 87 95 101 102 103 104 109 110 111 113 115 117 119 123 135 137 139 143 ' +
    '161 179 389 427 465 512 513 514 515 526 530 531 532 540 548 554 556 563 587 601 636 989 990 993 995 1719 1720 1723 2049 3659 4045 ' +
    '4190 5060 5061 6000 6566 6665 6666 6667 6668 6669 6679 6697 10080'
  ).split(' '),
);

/** May no URL with this port be dialed? Where private targets are allowed, a dead port of localhost is a target like any other. */
export function isBadPort(port: string, policy: EgressPolicy): boolean {
  return !policy.allow_private && BAD_PORTS.has(port);
}

/** May this address be dialed? */
export function addressVerdict(address: Uint8Array, policy: EgressPolicy): AddressVerdict {
  const meant = unwrapNat64(address);
  if (isIn(address, policy.deny) || isIn(meant, policy.deny)) return 'blocked';
  if (policy.allow_private || isIn(address, policy.allow) || isIn(meant, policy.allow)) return 'ok';
  if (isIPv4(meant)) return isIn(meant, IPV4_BLOCKED) ? 'blocked' : 'ok';
  return isIn(meant, IPV6_ALLOWED) && !isIn(meant, IPV6_BLOCKED) ? 'ok' : 'blocked';
}

/** 16 bytes of an address in its usual text form, with or without brackets; null where it is none (then it is a name). */
export function parseAddress(text: string): Uint8Array | null {
  const bare = text.startsWith('[') && text.endsWith(']') ? text.slice(1, -1) : text;
  if (!bare.includes(':')) return parseIPv4(bare);
  const zone = bare.indexOf('%');
  return parseIPv6(zone < 0 ? bare : bare.slice(0, zone));
}

/** `a.b.c.d/n`, `x::y/n`, or a single address; null where it is none. Bits beyond the prefix may be set and do not count. */
export function parseBlock(text: string): Block | null {
  const slash = text.indexOf('/');
  const bytes = parseAddress(slash < 0 ? text : text.slice(0, slash));
  if (bytes === null) return null;
  const shift_bits = text.includes(':') ? 0 : 96;
  if (slash < 0) return { bytes, prefix_bits: 128 };
  const bits = text.slice(slash + 1);
  if (!/^\d{1,3}$/.test(bits) || Number(bits) + shift_bits > 128) return null;
  return { bytes, prefix_bits: Number(bits) + shift_bits };
}

/** Dotted decimal, four numbers without leading zeros: what resolvers and the URL parser write. */
function parseIPv4(text: string): Uint8Array | null {
  const parts = text.split('.');
  if (parts.length !== 4) return null;
  const bytes = new Uint8Array(16);
  bytes[10] = 0xff;
  bytes[11] = 0xff;
  for (let i = 0; i < 4; i++) {
    const part = parts[i] ?? '';
    if (!/^(0|[1-9]\d{0,2})$/.test(part) || Number(part) > 255) return null;
    bytes[12 + i] = Number(part);
  }
  return bytes;
}

/** RFC 4291 2.2: eight groups, one `::` for a run of zeros, the last two groups perhaps as IPv4. */
function parseIPv6(text: string): Uint8Array | null {
  const halves = text.split('::');
  if (halves.length > 2) return null;
  const head = groups(halves[0] ?? '', halves.length === 1);
  const tail = halves.length === 2 ? groups(halves[1] ?? '', true) : [];
  if (head === null || tail === null) return null;
  const zeros = 8 - head.length - tail.length;
  if (halves.length === 1 ? zeros !== 0 : zeros < 1) return null;
  const bytes = new Uint8Array(16);
  for (const [i, group] of [...head, ...new Array<number>(zeros).fill(0), ...tail].entries()) {
    bytes[2 * i] = group >> 8;
    bytes[2 * i + 1] = group & 0xff;
  }
  return bytes;
}

function groups(text: string, may_end_in_ipv4: boolean): number[] | null {
  if (text === '') return [];
  const parts = text.split(':');
  const out: number[] = [];
  for (const [i, part] of parts.entries()) {
    if (may_end_in_ipv4 && i === parts.length - 1 && part.includes('.')) {
      const ipv4 = parseIPv4(part);
      if (ipv4 === null) return null;
      out.push(((ipv4[12] ?? 0) << 8) | (ipv4[13] ?? 0), ((ipv4[14] ?? 0) << 8) | (ipv4[15] ?? 0));
    } else {
      if (!/^[0-9a-f]{1,4}$/i.test(part)) return null;
      out.push(Number.parseInt(part, 16));
    }
  }
  return out;
}

const IPV4_PREFIX_BITS = 96;

/** `::ffff:a.b.c.d`, however it was written. */
function isIPv4(address: Uint8Array): boolean {
  return matches(address, IPV4_MAPPED);
}

/** An address behind the well-known NAT64 prefix is judged as the IPv4 address it stands for (RFC 6052). */
function unwrapNat64(address: Uint8Array): Uint8Array {
  if (!matches(address, NAT64)) return address;
  const out = Uint8Array.from(IPV4_MAPPED.bytes);
  out.set(address.subarray(12), 12);
  return out;
}

/** An IPv6 block that spans all of IPv4, `::/0` say, means IPv6 only. */
function isIn(address: Uint8Array, blocks: readonly Block[]): boolean {
  if (blocks.length === 0) return false;
  const ipv4 = isIPv4(address);
  for (const block of blocks) if ((!ipv4 || block.prefix_bits >= IPV4_PREFIX_BITS) && matches(address, block)) return true;
  return false;
}

function matches(address: Uint8Array, block: Block): boolean {
  const whole = block.prefix_bits >> 3;
  for (let i = 0; i < whole; i++) if (address[i] !== block.bytes[i]) return false;
  const rest = block.prefix_bits & 7;
  return rest === 0 || (((address[whole] ?? 0) ^ (block.bytes[whole] ?? 0)) & (0xff << (8 - rest)) & 0xff) === 0;
}

function blockOrThrow(text: string): Block {
  const block = parseBlock(text);
  if (block === null) throw new Error(`not a CIDR block: ${text}`);
  return block;
}

const IPV4_MAPPED = blockOrThrow('::ffff:0:0/96');
const NAT64 = blockOrThrow('64:ff9b::/96');
const LOOPBACK = [blockOrThrow('127.0.0.1').bytes, blockOrThrow('::1').bytes];

/** IANA's special-purpose registry, AS112 and old relays, and the cloud hosts that lie outside of it. */
const IPV4_BLOCKED: readonly Block[] = [
  '0.0.0.0/8', // this network, RFC 791, 1122
  '10.0.0.0/8', // private, RFC 1918
  '100.64.0.0/10', // carrier-grade NAT, RFC 6598; 100.100.100.200 is Alibaba's metadata
  '127.0.0.0/8', // loopback, RFC 1122
  '168.63.129.16/32', // Azure's host
  '169.254.0.0/16', // link-local, RFC 3927; cloud metadata
  '172.16.0.0/12', // private, RFC 1918
  '192.0.0.0/24', // protocol assignments, RFC 6890; 192.0.0.192 is Oracle's metadata
  '192.0.2.0/24', // documentation, RFC 5737
  '192.31.196.0/24', // AS112, RFC 7535
  '192.52.193.0/24', // AMT, RFC 7450
  '192.88.99.0/24', // 6to4 relay, RFC 7526
  '192.168.0.0/16', // private, RFC 1918
  '192.175.48.0/24', // AS112, RFC 7534
  '198.18.0.0/15', // benchmarks, RFC 2544
  '198.51.100.0/24', // documentation, RFC 5737
  '203.0.113.0/24', // documentation, RFC 5737
  '224.0.0.0/4', // multicast, RFC 5771
  '240.0.0.0/4', // reserved, RFC 1112; 255.255.255.255 is broadcast, RFC 8190
].map(blockOrThrow);

/** All that IANA hands out as global unicast; loopback, unique local, link-local, IPv4-compatible and the rest lie outside. */
const IPV6_ALLOWED: readonly Block[] = ['2000::/3'].map(blockOrThrow);

const IPV6_BLOCKED: readonly Block[] = [
  '2001::/23', // protocol assignments, RFC 2928: Teredo, ORCHID and benchmarks among them
  '2001:db8::/32', // documentation, RFC 3849
  '2002::/16', // 6to4, RFC 3056: embeds IPv4
  '2620:4f:8000::/48', // AS112, RFC 7534
  '3fff::/20', // documentation, RFC 9637
].map(blockOrThrow);

/** An origin is refused before any connection where its text alone tells; names are judged by their addresses when dialed. */
export function isRefusedOrigin(url: string, policy: EgressPolicy): boolean {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    return true;
  }
  if (parsed.origin !== url || (parsed.protocol !== 'http:' && parsed.protocol !== 'https:') || isBadPort(parsed.port, policy)) return true;
  const literal = parseAddress(parsed.hostname);
  return literal !== null && addressVerdict(literal, policy) === 'blocked';
}
