import assert from 'node:assert/strict';
import { isIP } from 'node:net';
import { test } from 'node:test';
import fc from 'fast-check';
import { addressVerdict, checkTarget, egressPolicy, hostVerdict, parseAddress, parseBlock } from '../../src/outbound/addresses.ts';

const closed = egressPolicy({ allow_private: false, allow_cidrs: [], deny_cidrs: [] });
const open = egressPolicy({ allow_private: true, allow_cidrs: [], deny_cidrs: [] });

function verdict(address: string, policy = closed): string {
  const bytes = parseAddress(address);
  assert.ok(bytes, address);
  return addressVerdict(bytes, policy);
}

/** Spellings of loopback that a URL parser or a resolver takes. */
export const LOOPBACK_SPELLINGS = [
  '127.0.0.1',
  '127.0.0.1.',
  '127.1',
  '127.0.1',
  '2130706433',
  '017700000001',
  '0x7f000001',
  '0x7f.1',
  '0177.0.0.1',
  '0177.0.0.01',
  '127.255.255.254',
  '１２７．０．０．１',
  '①②⑦.⓪.⓪.①',
  '127。0。0。1',
  '%31%32%37.0.0.1',
  '0',
  '0.0.0.0',
  '[::1]',
  '[0:0:0:0:0:0:0:1]',
  '[::]',
  '[::ffff:127.0.0.1]',
  '[::ffff:7f00:1]',
  '[0:0:0:0:0:ffff:127.0.0.1]',
  '[::127.0.0.1]',
  '[64:ff9b::127.0.0.1]',
  '[64:ff9b::7f00:1]',
  '[64:ff9b:1::7f00:1]',
  '[2002:7f00:1::]',
  '[2001:0:7f00:1::1]',
];

test('every spelling of loopback is blocked as a target', () => {
  for (const host of LOOPBACK_SPELLINGS) assert.equal(checkTarget(`http://${host}:8080/x`, closed), 'blocked', host);
});

test('each end of every reserved IPv4 range is blocked and its neighbours are not', () => {
  const ranges: [first: string, last: string, before: string | null, after: string | null][] = [
    ['0.0.0.0', '0.255.255.255', null, '1.0.0.0'],
    ['10.0.0.0', '10.255.255.255', '9.255.255.255', '11.0.0.0'],
    ['100.64.0.0', '100.127.255.255', '100.63.255.255', '100.128.0.0'],
    ['127.0.0.0', '127.255.255.255', '126.255.255.255', '128.0.0.0'],
    ['168.63.129.16', '168.63.129.16', '168.63.129.15', '168.63.129.17'],
    ['169.254.0.0', '169.254.255.255', '169.253.255.255', '169.255.0.0'],
    ['172.16.0.0', '172.31.255.255', '172.15.255.255', '172.32.0.0'],
    ['192.0.0.0', '192.0.0.255', '191.255.255.255', '192.0.1.0'],
    ['192.0.2.0', '192.0.2.255', '192.0.1.255', '192.0.3.0'],
    ['192.31.196.0', '192.31.196.255', '192.31.195.255', '192.31.197.0'],
    ['192.52.193.0', '192.52.193.255', '192.52.192.255', '192.52.194.0'],
    ['192.88.99.0', '192.88.99.255', '192.88.98.255', '192.88.100.0'],
    ['192.168.0.0', '192.168.255.255', '192.167.255.255', '192.169.0.0'],
    ['192.175.48.0', '192.175.48.255', '192.175.47.255', '192.175.49.0'],
    ['198.18.0.0', '198.19.255.255', '198.17.255.255', '198.20.0.0'],
    ['198.51.100.0', '198.51.100.255', '198.51.99.255', '198.51.101.0'],
    ['203.0.113.0', '203.0.113.255', '203.0.112.255', '203.0.114.0'],
    ['224.0.0.0', '255.255.255.255', '223.255.255.255', null],
  ];
  for (const [first, last, before, after] of ranges) {
    for (const form of [(a: string) => a, (a: string) => `::ffff:${a}`, (a: string) => `64:ff9b::${a}`]) {
      assert.equal(verdict(form(first)), 'blocked', first);
      assert.equal(verdict(form(last)), 'blocked', last);
      if (before !== null) assert.equal(verdict(form(before)), 'ok', before);
      if (after !== null) assert.equal(verdict(form(after)), 'ok', after);
    }
  }
});

test('of IPv6 only global unicast is open, without its special blocks', () => {
  for (const address of [
    '2606:4700::1111',
    '2a00:1450:4001:82a::200e',
    '2000::1',
    '2001:200::1',
    '3ffe::1',
    '2001:db7::1',
    '64:ff9b::8.8.8.8',
  ]) {
    assert.equal(verdict(address), 'ok', address);
  }
  const blocked =
    ':: ::1 ::8.8.8.8 64:ff9b:1::808:808 100::1 1fff::1 4000::1 5f00::1 fc00::1 fd00:ec2::254 fe80::1 fe80::1%eth0 fec0::1 ff02::1 ' +
    '2001::1 2001:2::1 2001:10::1 2001:20::1 2001:1ff:ffff::1 2001:db8::1 2002:808:808::1 2620:4f:8000::1 3fff::1 3fff:fff::1';
  for (const address of blocked.split(' ')) assert.equal(verdict(address), 'blocked', address);
});

test('exceptions open, additions close, and additions win', () => {
  const policy = egressPolicy({
    allow_private: false,
    allow_cidrs: ['10.1.0.0/16', 'fd00::/8', '127.0.0.1'],
    deny_cidrs: ['10.1.2.0/24', '8.8.8.8', '2606:4700::/32'],
  });
  for (const address of ['10.1.1.1', '::ffff:10.1.1.1', '64:ff9b::10.1.1.1', 'fd12::1', '127.0.0.1', '1.1.1.1']) {
    assert.equal(verdict(address, policy), 'ok', address);
  }
  for (const address of ['10.1.2.3', '10.2.0.1', '127.0.0.2', '8.8.8.8', '::ffff:8.8.8.8', '64:ff9b::808:808', '2606:4700::1', 'fe80::1']) {
    assert.equal(verdict(address, policy), 'blocked', address);
  }
});

test('allow_private opens the table but not the additions', () => {
  const policy = egressPolicy({ allow_private: true, allow_cidrs: [], deny_cidrs: ['10.0.0.0/8', '::1'] });
  for (const address of ['127.0.0.1', '192.168.1.1', 'fe80::1']) assert.equal(verdict(address, policy), 'ok', address);
  for (const address of ['10.9.8.7', '::ffff:10.9.8.7', '::1']) assert.equal(verdict(address, policy), 'blocked', address);
  assert.equal(checkTarget('http://localhost:3000/', policy), 'ok');
});

test('a block over all of IPv6 says nothing about IPv4', () => {
  const policy = egressPolicy({ allow_private: true, allow_cidrs: [], deny_cidrs: ['::/0'] });
  assert.equal(verdict('8.8.8.8', policy), 'ok');
  assert.equal(verdict('2606:4700::1', policy), 'blocked');
});

test('internal names are blocked unless private targets are allowed', () => {
  for (const name of [
    'localhost',
    'LOCALHOST',
    'localhost.',
    'a.localhost',
    'redis',
    'redis.',
    'printer.local',
    'db.internal',
    'db.internal.',
  ]) {
    assert.equal(checkTarget(`http://${name}/`, closed), 'blocked', name);
    assert.equal(checkTarget(`http://${name}/`, open), 'ok', name);
  }
  for (const name of [
    'example.com',
    'example.com.',
    'internal.example.com',
    'localhost.example.com',
    'xn--bcher-kva.example',
    'bücher.example',
    'a_b.example.com',
  ]) {
    assert.equal(checkTarget(`https://${name}/`, closed), 'ok', name);
  }
});

test('with exceptions configured, internal names wait for their addresses and localhost for loopback', () => {
  const ten = egressPolicy({ allow_private: false, allow_cidrs: ['10.0.0.0/8'], deny_cidrs: [] });
  const loopback = egressPolicy({ allow_private: false, allow_cidrs: ['127.0.0.0/8'], deny_cidrs: [] });
  assert.equal(hostVerdict('redis', ten), 'ok');
  assert.equal(hostVerdict('localhost', ten), 'blocked');
  assert.equal(hostVerdict('localhost', loopback), 'ok');
});

test('what is no web address is a bad host', () => {
  const long = `${'a'.repeat(64)}.example.com`;
  const urls = [
    '',
    'x',
    '/x',
    'ftp://example.com/',
    'file:///etc/passwd',
    'unix:/run/x.sock',
    'ws://example.com/',
    'javascript:1',
    'http://',
    'http://a:b@example.com/',
  ];
  urls.push(
    'http://a@example.com/',
    `http://${long}/`,
    `http://${'a.'.repeat(130)}com/`,
    'http://example..com/',
    'http://example.com../',
    'http://./',
  );
  urls.push('http://1.2.3.4.5/', 'http://256.1.1.1/', 'http://[::1/', 'http://exa mple.com/');
  for (const url of urls) assert.equal(checkTarget(url, open), 'bad_host', url);
});

test('the ports that browsers refuse are refused, unless private targets are allowed', () => {
  for (const port of [0, 1, 22, 25, 110, 465, 587, 6000, 6667, 10080]) {
    assert.equal(checkTarget(`http://example.com:${port}/`, closed), 'blocked', String(port));
    assert.equal(checkTarget(`http://example.com:${port}/`, open), 'ok', String(port));
  }
  for (const port of [80, 443, 3000, 8080, 8443, 65535])
    assert.equal(checkTarget(`http://example.com:${port}/`, closed), 'ok', String(port));
});

test('addresses and blocks that are none are not read', () => {
  for (const text of [
    '',
    '1.2.3',
    '1.2.3.4.5',
    '01.2.3.4',
    '256.1.1.1',
    ':::',
    '1::2::3',
    '12345::',
    '1:2:3:4:5:6:7',
    '::1.2.3',
    '1.2.3.4::',
    '[::1',
    'g::',
  ]) {
    assert.equal(parseAddress(text), null, text);
  }
  for (const text of ['10.0.0.0/33', '::/129', '10.0.0.0/', '10.0.0.0/-1', '10.0.0.0/8/8', 'example.com', '/8'])
    assert.equal(parseBlock(text), null, text);
  assert.throws(() => egressPolicy({ allow_private: false, allow_cidrs: ['10/8'], deny_cidrs: [] }), /10\/8/);
});

test('addresses are read as Node reads them', () => {
  const text = fc.oneof(fc.ipV4(), fc.ipV6(), fc.stringMatching(/^[0-9a-f:.]{0,24}$/));
  fc.assert(
    fc.property(text, (address) => assert.equal(parseAddress(address) !== null, isIP(address) !== 0, address)),
    { numRuns: 5_000 },
  );
  fc.assert(
    fc.property(fc.ipV6(), (address) => {
      // The URL parser writes the canonical form: both must be the same bytes.
      assert.deepEqual(parseAddress(address), parseAddress(new URL(`http://[${address}]/`).hostname));
    }),
    { numRuns: 2_000 },
  );
});
