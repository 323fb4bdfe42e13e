// What is committed is all that it takes: a clone of it, in a folder of its own and with an empty HOME, starts by the first command of the
// README, and the next ones deliver a callback. Only the packages are those of this checkout; `make bench` installs them too.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { firstCallback } from '../../bench/first-callback.ts';

const CLONEABLE = existsSync(new URL('../../.git', import.meta.url));

test('a fresh clone starts and calls by what the README says first', async () => {
  if (!CLONEABLE) return; // An archive of the sources has nothing to clone.
  const { commands, seconds } = await firstCallback('linked');
  assert.deepEqual(commands.slice(0, 3), ['git clone', 'cd', 'make start']);
  assert.equal(commands.length, 6);
  assert.ok(seconds > 0);
});
