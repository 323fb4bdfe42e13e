// Who claims when more partitions have work than claims may be under way.
import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { CLAIM_ASIDE_MAX, CLAIM_MAX, CLAIM_PATIENCE_MS, CLAIMS_ASIDE_MAX } from '../../src/base/limits.ts';
import { Claims } from '../../src/delivery/claims.ts';

const yes = (): boolean => true;
const no = (): boolean => false;
let now_ms = 0;
let claims = new Claims<string>(() => now_ms);

/** What it may claim; as who claims it. */
function claim(partition: string, rung: boolean, first = yes): number {
  const budget = claims.budget(partition, rung, first);
  if (budget > 0) claims.began(partition, budget);
  return budget;
}

beforeEach(() => {
  now_ms = 0;
  claims = new Claims<string>(() => now_ms);
  claim('a', false);
  claim('b', false);
});

describe('two claims are under way', () => {
  test('a third partition waits until one of them has ended', () => {
    assert.equal(claim('c', false), 0);
    assert.equal(claims.free('c'), false);
    assert.equal(claims.ended('a'), true, 'that was a turn');
    assert.equal(claims.free('c'), true);
    assert.equal(claim('c', false), CLAIM_MAX);
  });

  test('whose turn it is not waits, though one is free', () => {
    claims.ended('a');
    assert.equal(claim('c', false, no), 0);
    assert.equal(claim('d', false, yes), CLAIM_MAX);
  });

  test('where work has come a little is claimed beside them, which is no turn', () => {
    assert.equal(claim('c', true), CLAIM_ASIDE_MAX);
    assert.equal(claims.ended('c'), false);
    assert.equal(claim('c', false), 0, 'what it left waits for the turn');
    claims.ended('a');
    assert.equal(claim('c', false), CLAIM_MAX);
  });

  test('a few at a time; who found none has the next one that ends', () => {
    for (let i = 0; i < CLAIMS_ASIDE_MAX; i++) assert.equal(claim(`rung ${i}`, true), CLAIM_ASIDE_MAX);
    assert.equal(claim('late', true), 0);
    assert.equal(claims.free('late'), false);
    claims.ended('rung 0');
    assert.equal(claims.free('late'), true);
    assert.equal(claim('late', true), CLAIM_ASIDE_MAX);
  });

  test('claims beside the turns take none of them', () => {
    claims.ended('a');
    claims.ended('b');
    assert.equal(claim('c', true, no), CLAIM_ASIDE_MAX);
    assert.equal(claim('a', false), CLAIM_MAX);
    assert.equal(claim('b', false), CLAIM_MAX);
  });

  test('one that is not answered for long holds up nobody, and is counted once', () => {
    claim('c', true);
    now_ms += CLAIM_PATIENCE_MS + 1;
    assert.equal(claim('d', false), CLAIM_MAX);
    claims.ended('c');
    claims.ended('a');
    for (let i = 0; i < CLAIMS_ASIDE_MAX; i++) assert.equal(claim(`rung ${i}`, true, no), CLAIM_ASIDE_MAX);
    assert.equal(claim('one more', true, no), 0);
  });
});
