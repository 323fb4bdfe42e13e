// The body of a rate limiter: every way in which a configuration can be wrong is told with its place, for every kind.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { check } from '../../src/schema/check.ts';
import type { JsonSchema } from '../../src/schema/definition.ts';
import { configSchema } from '../../src/schema/limiter.ts';
import type { LimiterKind } from '../../src/schema/limiters/kind.ts';
import { costMax, LIMITER_KINDS, LIMITER_TYPES, type LimiterType, letterOf } from '../../src/schema/limiters/kinds.ts';

/** A configuration of each form of each kind. */
const FORMS = LIMITER_TYPES.flatMap((type) =>
  (LIMITER_KINDS[type] as LimiterKind).forms.map(({ name, schema }) => {
    const fields = Object.entries(schema.properties ?? {});
    return { type, name, schema, config: Object.fromEntries(fields.map(([field, { maximum }]) => [field, maximum ?? 1])) };
  }),
);

const FIELDS = [...new Set(FORMS.flatMap(({ schema }) => Object.keys(schema.properties ?? {})))];

function faultsOf(type: LimiterType, config: unknown): [string, string][] {
  return check('LimiterCreate', { name: 'x', type, config }).map(({ path, message }) => [path, message]);
}

describe('the kinds of limiter', () => {
  test('have letters of their own, which are what the scripts know', () => {
    assert.deepEqual(Object.fromEntries(LIMITER_TYPES.map((type) => [type, letterOf(type)])), {
      concurrent: 'c',
      bucket: 'b',
      window: 'w',
      leaky: 'l',
      points: 'p',
    });
  });

  test('have ranges as the contract says', () => {
    const ranges = (name: string): Record<string, (number | undefined)[]> => {
      const { schema } = FORMS.find((form) => form.name === name) as { schema: JsonSchema };
      return Object.fromEntries(
        Object.entries(schema.properties ?? {}).map(([field, { minimum, maximum }]) => [field, [minimum, maximum]]),
      );
    };
    const [units, interval] = [
      [1, 1_000_000],
      [1, 2_592_000],
    ] as const;
    assert.deepEqual(ranges('WindowConfig'), { limit: units, interval });
    assert.deepEqual(ranges('BucketConfig'), { limit: units, interval });
    assert.deepEqual(ranges('TokenBucketConfig'), { capacity: units, refill_rate: units, interval });
    assert.deepEqual(ranges('LeakyConfig'), { capacity: units, drain_rate: units, interval });
    assert.deepEqual(ranges('PointsConfig'), { capacity: units, refill_rate: units, interval });
    assert.deepEqual(ranges('ConcurrentConfig'), { limit: [1, 100_000], lock_timeout: [1, 86_400] });
  });

  test('only points have costs', () => {
    const costs = FORMS.filter(({ type, config }) => costMax(type, config) !== null).map(({ name }) => name);
    assert.deepEqual(costs, ['PointsConfig']);
    assert.equal(costMax('points', { capacity: 7, refill_rate: 1, interval: 1 }), 7);
  });
});

for (const { type, name, schema, config } of FORMS) {
  const required = schema.required ?? [];
  describe(`${name} of a ${type}`, () => {
    test('is taken at both ends of every range, and without what is optional', () => {
      assert.deepEqual(faultsOf(type, config), []);
      const least = Object.fromEntries(required.map((field) => [field, 1]));
      assert.deepEqual(faultsOf(type, least), []);
      assert.equal(configSchema(type, config), name);
    });

    for (const [field, { maximum = 0 }] of Object.entries(schema.properties ?? {})) {
      test(`is refused where ${field} is wrong, with its place`, () => {
        const path = `/config/${field}`;
        for (const wrong of ['1', 1.5, null, true, [1], {}, Number.NaN]) {
          assert.deepEqual(faultsOf(type, { ...config, [field]: wrong }), [[path, 'must be an integer']], JSON.stringify(wrong));
        }
        for (const [wrong, message] of [
          [0, 'must be at least 1'],
          [-1, 'must be at least 1'],
          [maximum + 1, `must be at most ${maximum}`],
        ] as const) {
          assert.deepEqual(faultsOf(type, { ...config, [field]: wrong }), [[path, message]]);
        }
      });
    }

    for (const field of required) {
      test(`is refused without ${field}`, () => {
        const { [field]: _, ...rest } = config;
        assert.ok(faultsOf(type, rest).some(([path, message]) => path === `/config/${field}` && message === 'is required'));
      });
    }

    test('is refused with a field of another kind, or of none', () => {
      for (const field of [...FIELDS, 'Limit', 'interval_s', '__proto', 'a/b~c']) {
        if (Object.hasOwn(config, field)) continue;
        const faults = faultsOf(type, { ...config, [field]: 1 });
        assert.ok(faults.length > 0, field);
        assert.ok(faults.every(([path]) => path.startsWith('/config/')));
      }
      assert.deepEqual(faultsOf(type, { ...config, 'a/b~c': 1 }), [['/config/a~1b~0c', 'is not a known field']]);
    });
  });
}

describe('the body of a limiter', () => {
  test('is told all that is wrong with it at once', () => {
    const body = {
      name: 'not a name',
      type: 'leaky',
      config: { limit: 1 },
      timeouts: { queue_timeout: 0, other: 1 },
      cooldown: 'no',
      x: 1,
    };
    const paths = check('LimiterCreate', body).map(({ path }) => path);
    assert.deepEqual(paths.sort(), [
      '/config/capacity',
      '/config/drain_rate',
      '/config/interval',
      '/config/limit',
      '/cooldown',
      '/name',
      '/timeouts/other',
      '/timeouts/queue_timeout',
      '/x',
    ]);
  });

  test('needs a config that is an object, whatever its type', () => {
    for (const type of [...LIMITER_TYPES, 'other']) {
      for (const config of [null, 5, 'x', []]) {
        const faults = check('LimiterCreate', { name: 'x', type, config });
        assert.ok(
          faults.some(({ path, message }) => path === '/config' && message === 'must be an object'),
          `${type} ${config}`,
        );
      }
    }
  });

  test('takes the two forms of a bucket by their fields', () => {
    assert.deepEqual(faultsOf('bucket', { capacity: 1, interval: 1 }), [['/config/refill_rate', 'is required']]);
    assert.deepEqual(faultsOf('bucket', { refill_rate: 1, interval: 1 }), [['/config/capacity', 'is required']]);
    assert.deepEqual(faultsOf('bucket', { interval: 1 }), [['/config/limit', 'is required']]);
    assert.deepEqual(faultsOf('bucket', { capacity: 1, refill_rate: 1, interval: 1, limit: 1 }), [
      ['/config/limit', 'is not a known field'],
    ]);
  });

  test('cannot change name or type, and says so', () => {
    assert.deepEqual(check('LimiterPatch', { name: 'a', type: 'window' }), [
      { path: '/name', message: 'cannot be changed' },
      { path: '/type', message: 'cannot be changed' },
    ]);
    assert.deepEqual(check('LimiterPatch', { timeouts: null, description: null }), []);
  });
});
