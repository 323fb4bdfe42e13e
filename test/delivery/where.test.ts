import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { whereOf } from '../../src/delivery/where.ts';

function asUrl(url: string): { origin: string; path: string } {
  const { origin, pathname, search } = new URL(url);
  return { origin, path: pathname + search };
}

const HOSTS = [
  'a.example',
  'A.Example',
  'a.example.',
  'localhost',
  '127.0.0.1',
  '127.1',
  '0x7f.1',
  '[::1]',
  '[0:0::1]',
  'bücher.example',
  'xn--bcher-kva.example',
  'a_b.example',
  'user:secret@a.example',
];
const PORTS = ['', ':', ':80', ':443', ':8080', ':0080'];
const PIECES = [
  '',
  'hook',
  '.',
  '..',
  '...',
  '%2e',
  '.%2E',
  '%2E%2e',
  '.well-known',
  'a.b',
  'a b',
  'é',
  '%',
  '%zz',
  "'",
  '"',
  '<',
  '>',
  '`',
  '{}',
  '|',
  '^',
  '[',
  ']',
  '\\',
  ';v=1',
  '~',
  '*',
  '@',
  ':',
  '\t',
  '\u{1f600}',
  '$&+,=!()-_',
];
const TAILS = ['', '?', '?a=1', "?a='b'", '?a=/../b', '?a=%2e&b=é', '?a=b?c', '?a b', '#', '#part', '?a=1#part', '/#/..', '?<>"`{}|^[]\\'];

test('tells what `new URL` tells', () => {
  const path = fc.array(fc.constantFrom(...PIECES), { maxLength: 4 }).map((pieces) => pieces.map((piece) => `/${piece}`).join(''));
  const parts = fc.tuple(
    fc.constantFrom('http', 'https', 'HTTP'),
    fc.constantFrom(...HOSTS),
    fc.constantFrom(...PORTS),
    path,
    fc.constantFrom(...TAILS),
  );
  fc.assert(
    fc.property(parts, ([scheme, host, port, at, tail]) => {
      const url = `${scheme}://${host}${port}${at}${tail}`;
      assert.deepEqual(whereOf(url), asUrl(url), url);
    }),
    { numRuns: 20_000 },
  );
});

test('of any text, where that is a URL', () => {
  const texts = fc.string({ unit: 'binary', maxLength: 30 }).map((text) => `https://a.example${text}`);
  fc.assert(
    fc.property(texts, (url) => {
      if (URL.canParse(url)) assert.deepEqual(whereOf(url), asUrl(url), url);
      else assert.throws(() => whereOf(url), TypeError);
    }),
    { numRuns: 20_000 },
  );
});

test('of each character below 256, in path and query', () => {
  for (let code = 0; code < 256; code++) {
    for (const url of [`http://a.example/x${String.fromCharCode(code)}y`, `http://a.example/x?y${String.fromCharCode(code)}z`])
      assert.deepEqual(whereOf(url), asUrl(url), JSON.stringify(url));
  }
});

test('throws where it is no URL', () => {
  for (const text of ['', 'hook', 'http://', 'http://a.example:99999/x', 'http://a b/x', 'http://[::1/x', 'http://127.0.0.256/x'])
    assert.throws(() => whereOf(text), TypeError, text);
});
