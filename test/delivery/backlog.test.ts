// What a pump knows of its partition's work.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Backlog } from '../../src/delivery/backlog.ts';
import { Origins } from '../../src/delivery/origins.ts';
import type { ClaimReply } from '../../src/store/partition.ts';

const origins = new Origins(100, { free: () => 100, behind: () => false });

function answered(backlog: Backlog, reply: Pick<ClaimReply, 'more' | 'suspects'>): boolean {
  backlog.answered(origins, 0, { now_ms: 0, more_notes: false, first_due_ms: 0, parked: [], tasks: [], messages: false, ...reply });
  return backlog.suspects;
}

test('that a task at its last chance was met is known until a claim has come to it, or nothing is left', () => {
  const backlog = new Backlog();
  assert.equal(answered(backlog, { more: true, suspects: 0 }), false);
  assert.equal(answered(backlog, { more: true, suspects: 1 }), true);
  assert.equal(answered(backlog, { more: true, suspects: 0 }), true, 'others were in front of it, or the claim was a repeated one');
  assert.equal(answered(backlog, { more: true, suspects: 2 }), false, 'brought, or put off');
  assert.equal(answered(backlog, { more: true, suspects: 1 }), true);
  assert.equal(answered(backlog, { more: false, suspects: 0 }), false, 'taken by another');
});

test('what a helper leaves while a claim that lets go of everything is under way is let go of by the next one', () => {
  const backlog = new Backlog();
  backlog.everything();
  assert.deepEqual(backlog.ask(origins, 0, 10).unpark, ['*'], 'the first of an owner');
  backlog.left();
  answered(backlog, { more: false, suspects: 0 });
  assert.equal(backlog.has(origins, 0, false), true);
  assert.deepEqual(backlog.ask(origins, 0, 10).unpark, ['*']);
  answered(backlog, { more: false, suspects: 0 });
  assert.equal(backlog.has(origins, 0, false), false);
  assert.deepEqual(backlog.ask(origins, 0, 10).unpark, []);
});

test('what another has parked is named by the next claim, also where one is under way', () => {
  const backlog = new Backlog();
  backlog.ask(origins, 0, 10);
  backlog.passed(origins, 0, ['passed'], false);
  assert.equal(backlog.parks, false, 'not by this pump');
  answered(backlog, { more: false, suspects: 0 });
  assert.equal(backlog.has(origins, 0, false), true);
  assert.deepEqual(backlog.ask(origins, 0, 10).unpark, ['passed']);
  backlog.passed(origins, 0, ['passed'], false);
  assert.deepEqual(backlog.ask(origins, 0, 10).unpark, ['passed'], 'once, where the claim before was not answered');
  answered(backlog, { more: false, suspects: 0 });
  assert.equal(backlog.has(origins, 0, false), false);
});

test('work that is parked where there is no room here is no reason to claim, work that is ready is', () => {
  const full = new Origins(1, { free: () => 100, behind: () => false });
  full.began('full');
  const backlog = new Backlog();
  answered(backlog, { more: false, suspects: 0 });
  backlog.passed(full, 0, ['full'], false);
  assert.equal(backlog.has(full, 0, false), false);
  full.ended('full', null, 1);
  assert.equal(backlog.has(full, 0, false), true, 'it has room again');
  backlog.ask(full, 0, 10);
  answered(backlog, { more: false, suspects: 0 });
  backlog.passed(full, 0, [], true);
  assert.equal(backlog.has(full, 0, false), true);
});
