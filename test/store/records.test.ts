// Pages of tasks: what is written is what is read.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { decodePage, encodeSegments, type NewTask, withMembers } from '../../src/store/records.ts';

const HEADS = ['{"target":"https://a.example/"}', '{"target":{"url":"https://b.example/é"},"timeout":5}'].map((text) => Buffer.from(text));
const MEMBERS = Buffer.from(',"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"');

const task = fc.record({ head: fc.constantFrom(...HEADS), payload: fc.option(fc.json().map((text) => Buffer.from(text))) });

test('a page keeps its tasks when its heads get further members', () => {
  fc.assert(
    fc.property(fc.array(task, { minLength: 1, maxLength: 40 }), (given) => {
      const tasks: NewTask[] = given.map((one) => ({ ...one, origin: 'o', timeout_s: 30, due_ms: 0, limit: null }));
      const [segment] = encodeSegments(tasks);
      assert.ok(segment);
      const pages = segment.ends.map((end, i) => Buffer.from(segment.pages.subarray(segment.ends[i - 1] ?? 0, end)));
      assert.deepEqual(
        pages.flatMap(decodePage).map(({ head, payload }) => [String(head), payload && String(payload)]),
        given.map(({ head, payload }) => [String(head), payload && String(payload)]),
      );
      const changed = pages.map((page) => withMembers(page, MEMBERS));
      assert.deepEqual(
        changed.flatMap(decodePage).map(({ head, payload }) => [String(head), payload && String(payload)]),
        given.map(({ head, payload }) => [`${String(head).slice(0, -1)}${MEMBERS}}`, payload && String(payload)]),
      );
      // A head that stands for its neighbours does so still.
      const spelled_out = (page: Buffer): number => new Set(decodePage(page).map(({ head }) => head)).size;
      assert.deepEqual(
        changed.map((page, i) => page.length - (pages[i]?.length ?? 0)),
        pages.map((page) => spelled_out(page) * MEMBERS.length),
      );
    }),
  );
});
