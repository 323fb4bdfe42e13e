// The fast validators and those that find all faults are made separately from one source; they must never disagree.
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { isValid } from '../../src/schema/check.ts';
import { BODIES, QUERIES, SCHEMAS } from '../../src/schema/registry.ts';
import * as every from '../../src/schema/validators-all.gen.ts';

const validators = new Map(Object.entries(every as unknown as Record<string, (value: unknown) => boolean>));
const FIELDS = [...new Set(Object.values(SCHEMAS).flatMap((schema) => Object.keys(schema.properties ?? {})))];

const leaf = fc.oneof(
  fc.constantFrom<unknown>(
    'https://example.com',
    'POST',
    'pending',
    'fixed',
    'a-b',
    '',
    'é',
    '2026-01-31T09:00:00Z',
    0,
    1,
    2.5,
    1e9,
    -1,
    true,
    false,
    null,
  ),
  fc.string({ maxLength: 5 }),
);
const { body } = fc.letrec((tie) => ({
  body: fc.oneof({ depthSize: 'small', withCrossShrink: true }, leaf, tie('object'), fc.array(tie('body'), { maxLength: 3 })),
  object: fc.dictionary(
    fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...FIELDS) }, { weight: 1, arbitrary: fc.string({ maxLength: 3 }) }),
    tie('body'),
    { maxKeys: 5 },
  ),
}));

describe('the two validators of a schema', () => {
  for (const name of [...BODIES, ...Object.keys(QUERIES)] as (typeof BODIES)[number][]) {
    it(`agree on ${name}`, () => {
      const all = validators.get(name) as (value: unknown) => boolean;
      const shaped = fc.oneof(
        body,
        body.map((value) => ({ target: 'https://example.com', payload: value })),
        fc.tuple(body, body).map(([one, two]) => ({ target: one, retry: two, timeout: 5 })),
        fc.tuple(body, body).map(([one, two]) => ({ tasks: [{ target: one }], options: two })),
        fc.tuple(leaf, leaf).map(([one, two]) => ({ tasks: [{ target: 'https://example.com', timeout: one }], atomic: two })),
        fc.tuple(leaf, leaf).map(([one, two]) => ({ status: one, limit: two, offset: 0 })),
      );
      fc.assert(
        fc.property(shaped, (value) => isValid(name, value) === all(value)),
        { numRuns: 2000 },
      );
    });
  }
});
