// scripts/audit.ts: what it makes of the registry's answer.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { graveIn } from '../../scripts/audit.ts';

const report = (vulnerabilities: object): string => JSON.stringify({ vulnerabilities, metadata: { dependencies: { prod: 12 } } });
const fault = (severity: string) => ({ severity, range: '<2', via: [{ title: 'It breaks', url: 'https://example.com/1' }, 'other'] });

test('faults that are high or critical are told, others are not', () => {
  assert.deepEqual(graveIn(report({})), { grave: [], packages: 12 });
  assert.deepEqual(graveIn(report({ a: fault('moderate'), b: fault('low') })), { grave: [], packages: 12 });
  assert.deepEqual(graveIn(report({ a: fault('high') }))?.grave, ['a <2: high: It breaks https://example.com/1; by other']);
  assert.equal(graveIn(report({ a: fault('critical'), b: fault('high') }))?.grave.length, 2);
});

test('an answer that is no report is told from one without faults', () => {
  for (const text of ['', 'npm error', '{"message":"405 Method Not Allowed","error":{"summary":""}}', '[]', 'null'])
    assert.equal(graveIn(text), null, text);
});
