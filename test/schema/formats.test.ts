// Timestamps and characters: stricter than Date, and as a person counts.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { codePoints, timestampMs } from '../../src/schema/formats.ts';

describe('timestampMs', () => {
  it('reads any instant of its years as Date does', () => {
    const range = { min: new Date('1970-01-01T00:00:00.001Z'), max: new Date('9999-12-31T23:59:59.999Z'), noInvalidDate: true };
    fc.assert(fc.property(fc.date(range), (date) => timestampMs(date.toISOString()) === date.getTime()));
  });

  it('reads offsets and fractions', () => {
    const utc = Date.UTC(2026, 0, 31, 9, 0, 0);
    assert.equal(timestampMs('2026-01-31T09:00:00Z'), utc);
    assert.equal(timestampMs('2026-01-31t09:00:00z'), utc);
    assert.equal(timestampMs('2026-01-31T11:00:00+02:00'), utc);
    assert.equal(timestampMs('2026-01-31T03:30:00-05:30'), utc);
    assert.equal(timestampMs('2026-01-31T09:00:00.5Z'), utc + 500);
    assert.equal(timestampMs('2026-01-31T09:00:00.123456789Z'), utc + 123);
    assert.equal(timestampMs(`2026-01-31T09:00:00.${'9'.repeat(30)}+00:00`), utc + 999);
    assert.equal(timestampMs(`2026-01-31T09:00:00.${'9'.repeat(60)}Z`), null);
    assert.equal(timestampMs('2024-02-29T00:00:00Z'), Date.UTC(2024, 1, 29));
    assert.equal(timestampMs('2000-02-29T00:00:00Z'), Date.UTC(2000, 1, 29));
    for (const text of [
      '1970-01-01T00:00:00+14:00',
      '1969-12-31T23:59:59Z',
      '0099-06-01T00:00:00Z',
      '0001-01-01T00:00:00Z',
      '0000-02-29T00:00:00Z',
    ]) {
      assert.equal(timestampMs(text), 1, text);
    }
    assert.equal(timestampMs('9999-12-31T23:59:59-12:00'), Date.parse('9999-12-31T23:59:59.999Z'));
  });

  for (const text of [
    '',
    '1',
    '2026',
    '2026-1-1',
    '2026-01-31',
    '2026-01-31T09:00:00',
    '2026-01-31T09:00Z',
    '2026-01-31 09:00:00Z',
    '2026-02-30T00:00:00Z',
    '2026-02-29T00:00:00Z',
    '2100-02-29T00:00:00Z',
    '2026-04-31T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-00-01T00:00:00Z',
    '2026-01-00T00:00:00Z',
    '2026-01-32T00:00:00Z',
    '2026-01-31T24:00:00Z',
    '2026-01-31T09:60:00Z',
    '2026-12-31T23:59:60Z',
    '10000-01-01T00:00:00Z',
    '2026-01-31T09:00:00+0200',
    '2026-01-31T09:00:00+02',
    '2026-01-31T09:00:00+24:00',
    '2026-01-31T09:00:00+02:60',
    '2026-01-31T09:00:00.Z',
    '2026-01-31T09:00:00,5Z',
    '2026-01-31T09:00:00ZZ',
    ' 2026-01-31T09:00:00Z',
    '2026-01-31T09:00:00Z ',
    '+002026-01-31T09:00:00Z',
    '2026-01-31T09:00:00−02:00',
    '2026-01-31T-9:00:00Z',
    '２026-01-31T09:00:00Z',
    '2026-W05-6T09:00:00Z',
  ]) {
    it(`refuses ${JSON.stringify(text)}`, () => assert.equal(timestampMs(text), null));
  }
});

describe('codePoints', () => {
  it('counts as iteration does', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (text) => codePoints(text) === [...text].length));
  });
});
