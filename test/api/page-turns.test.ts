import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { PageTurns } from '../../src/api/page-turns.ts';

/** Pages that end when told to, and whose they were, in the order in which they began. */
class Pages {
  readonly began: string[] = [];
  readonly #ends: ((failure: Error | null) => void)[] = [];
  readonly #turns = new PageTurns();

  read(account_id: string, abandoned = () => false): Promise<string> {
    return this.#turns.read({ account_id, abandoned }, () => {
      this.began.push(account_id);
      return new Promise((done, failed) => this.#ends.push((failure) => (failure === null ? done(account_id) : failed(failure))));
    });
  }

  /** The one that began first ends; all that follows from it has happened when this resolves. */
  async end(failure: Error | null = null): Promise<void> {
    this.#ends.shift()?.(failure);
    await setImmediate();
  }
}

test('two pages are read at a time; the accounts take turns for the next, each with who came first', async () => {
  const pages = new Pages();
  const reads = ['a', 'a', 'a', 'a', 'a', 'b', 'b', 'c'].map((account_id) => pages.read(account_id));
  const begun: string[] = [];
  for (let ended = 0; ended < reads.length; ended++) {
    begun.push(pages.began.join(''));
    await pages.end();
  }
  assert.deepEqual(begun, ['aa', 'aaa', 'aaab', 'aaabc', 'aaabca', 'aaabcab', 'aaabcaba', 'aaabcaba']);
  assert.deepEqual(await Promise.all(reads), ['a', 'a', 'a', 'a', 'a', 'b', 'b', 'c']);
});

test('a page that fails gives its turn on, and one that nobody waits for gives it back', async () => {
  const pages = new Pages();
  const [one, two, three] = [pages.read('one'), pages.read('two'), pages.read('three')];
  const failed = assert.rejects(one, /gone/);
  await pages.end(new Error('gone'));
  await failed;
  assert.deepEqual(pages.began, ['one', 'two', 'three']);
  await pages.end();
  await pages.end();
  assert.deepEqual(await Promise.all([two, three]), ['two', 'three']);
  const later = [pages.read('x'), pages.read('x'), pages.read('x')];
  assert.equal(pages.began.length, 5);
  for (const _ of later) await pages.end();
  assert.equal((await Promise.all(later)).length, 3);
});

test('nothing is read for those who have gone while they waited', async () => {
  const pages = new Pages();
  let gone = false;
  const reads = [
    pages.read('a'),
    pages.read('b'),
    ...['a', 'b', 'c'].map((account_id) => pages.read(account_id, () => gone)),
    pages.read('d'),
  ];
  const settled = Promise.allSettled(reads);
  gone = true;
  await pages.end();
  assert.deepEqual(pages.began, ['a', 'b', 'd']);
  await pages.end();
  await pages.end();
  const outcomes = (await settled).map(({ status }) => status);
  assert.deepEqual(outcomes, ['fulfilled', 'fulfilled', 'rejected', 'rejected', 'rejected', 'fulfilled']);
});
