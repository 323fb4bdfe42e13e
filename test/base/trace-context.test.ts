import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readTraceContext } from '../../src/base/trace-context.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const PARENT = '00f067aa0ba902b7';

test('a traceparent that is valid is kept as it is, and one of a later version without what that adds', () => {
  const read = (text: string): string | undefined => readTraceContext(text, '')?.traceparent;
  for (const flags of ['00', '01', '03']) assert.equal(read(`00-${TRACE}-${PARENT}-${flags}`), `00-${TRACE}-${PARENT}-${flags}`);
  assert.equal(read(`cc-${TRACE}-${PARENT}-01`), `00-${TRACE}-${PARENT}-01`);
  assert.equal(read(`cc-${TRACE}-${PARENT}-01-what-the-future`), `00-${TRACE}-${PARENT}-01`);
});

test('a traceparent that is not valid counts as none', () => {
  for (const text of [
    '',
    'x',
    `00-${TRACE}-${PARENT}`,
    `00-${TRACE}-${PARENT}-01-more`,
    `00-${TRACE}-${PARENT}-01 `,
    `ff-${TRACE}-${PARENT}-01`,
    `00-${TRACE.toUpperCase()}-${PARENT}-01`,
    `00-${'0'.repeat(32)}-${PARENT}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `00-${TRACE.slice(1)}-${PARENT}-01`,
    `cc-${TRACE}-${PARENT}-01.more`,
    `00-${TRACE}-${PARENT}-0g`,
  ]) {
    assert.equal(readTraceContext(text, ''), null, text);
  }
});

test('a tracestate is kept with its traceparent, and dropped whole where it is not valid', () => {
  const read = (tracestate: string): string | undefined => readTraceContext(`00-${TRACE}-${PARENT}-01`, tracestate)?.tracestate;
  for (const text of ['congo=t61rcWkgMzE', 'rojo=00f067aa0ba902b7,congo=t61', 'a=1, b=2,', '0vendor@tenant=x y'])
    assert.equal(read(text), text);
  for (const text of ['', 'x', 'A=1', 'a=', 'a=1;b=é', `a=${'x'.repeat(300)}`, `a=${'x'.repeat(512)}`, 'a=1\tb', 'a=b=c']) {
    assert.equal(read(text), '', text);
  }
  assert.equal(read(Array.from({ length: 33 }, (_, n) => `k${n}=1`).join(',')), '');
  assert.equal(readTraceContext('', 'a=1'), null);
});
