// Lines: who came first is first, and anyone may leave.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Line, type Place } from '../../src/base/line.ts';

test('goes as an array does, whoever leaves', () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant('push' as const) }),
    fc.record({ do: fc.constant('shift' as const) }),
    fc.record({ do: fc.constant('remove' as const), which: fc.nat(40) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const line = new Line<number>();
      const places: Place<number>[] = [];
      let model: number[] = [];
      for (const at of steps) {
        if (at.do === 'push') {
          model.push(places.length);
          places.push(line.push(places.length));
        } else if (at.do === 'shift') {
          assert.equal(line.shift(), model.shift() ?? null);
        } else {
          const place = places[at.which];
          if (place === undefined) continue;
          assert.equal(line.remove(place), model.includes(place.item));
          model = model.filter((item) => item !== place.item);
        }
        assert.deepEqual(line.all(), model);
        assert.equal(line.size, model.length);
      }
    }),
  );
});

test('who has left leads to nobody, so that what came after him can be collected', () => {
  const line = new Line<string>();
  const [first, second, third] = [line.push('a'), line.push('b'), line.push('c')];
  line.remove(second);
  line.shift();
  for (const gone of [first, second]) assert.deepEqual([gone.line, gone.before, gone.behind], [null, null, null]);
  assert.equal(new Line<string>().remove(third), false, 'another line');
  assert.deepEqual(line.all(), ['c']);
});
