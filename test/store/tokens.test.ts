import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import {
  createToken,
  ensureLocalToken,
  isLive,
  isTokenText,
  listTokens,
  lookupToken,
  newTokenText,
  revokeToken,
  tokenHash,
} from '../../src/store/tokens.ts';
import { startRedis } from '../helpers/redis.ts';

const { redis } = await startRedis();
const NOW_MS = Date.now();
const HOUR_MS = 3_600_000;

describe('access tokens', () => {
  it('are 53 characters that tell a slip of the pen from a token', () => {
    const text = newTokenText();
    assert.match(text, /^slk_[0-9A-Za-z]{49}$/);
    assert.ok(isTokenText(text));
    assert.notEqual(newTokenText(), text);
    for (let at = 0; at < text.length; at++) {
      const other = text[at] === 'a' ? 'b' : 'a';
      assert.ok(!isTokenText(text.slice(0, at) + other + text.slice(at + 1)), `changed at ${at}`);
    }
    for (const junk of ['', 'slk_', text.slice(1), `${text}0`, text.replace('slk_', 'SLK_')]) assert.ok(!isTokenText(junk));
  });

  it('are found by their hash, and Redis never sees their text', async () => {
    const { text, record } = await createToken(redis, { account: 'acme', scope: 'write', expires_in_ms: null, now_ms: NOW_MS });
    assert.deepEqual(await lookupToken(redis, tokenHash(text)), record);
    assert.equal(await lookupToken(redis, tokenHash(newTokenText())), null);
    for (const key of await redis.keys('*')) {
      const stored =
        key + ((await redis.type(key)) === 'hash' ? JSON.stringify(await redis.hgetall(key)) : (await redis.smembers(key)).join());
      assert.ok(!stored.includes(text.slice(4, 20)));
    }
  });

  it('are listed by account, oldest first', async () => {
    const first = await createToken(redis, { account: 'listed', scope: 'read', expires_in_ms: HOUR_MS, now_ms: NOW_MS });
    const second = await createToken(redis, { account: 'listed', scope: 'admin', expires_in_ms: null, now_ms: NOW_MS + 1 });
    const listed = await listTokens(redis, 'listed');
    assert.deepEqual(
      listed.map(({ id, scope, expires_at_ms }) => [id, scope, expires_at_ms]),
      [
        [first.record.id, 'read', NOW_MS + HOUR_MS],
        [second.record.id, 'admin', null],
      ],
    );
    const all = (await listTokens(redis, null)).map(({ id }) => id);
    assert.ok(all.includes(first.record.id) && new Set(all).size === all.length);
    assert.deepEqual(await listTokens(redis, 'nobody'), []);
  });

  it('are no good once revoked or expired, but still listed for a while', async () => {
    const { text, record } = await createToken(redis, { account: 'gone', scope: 'read', expires_in_ms: HOUR_MS, now_ms: NOW_MS });
    assert.deepEqual([isLive(record, NOW_MS), isLive(record, NOW_MS + HOUR_MS)], [true, false]);
    const revoked = await revokeToken(redis, record.id, NOW_MS + 5);
    assert.equal(revoked?.revoked_at_ms, NOW_MS + 5);
    assert.equal((await revokeToken(redis, record.id, NOW_MS + 9))?.revoked_at_ms, NOW_MS + 5);
    const found = await lookupToken(redis, tokenHash(text));
    assert.ok(found !== null && !isLive(found, NOW_MS + 5));
    assert.equal((await listTokens(redis, 'gone')).length, 1);
  });

  it('leave the list when Redis has let them go', async () => {
    const { text } = await createToken(redis, { account: 'brief', scope: 'read', expires_in_ms: 1, now_ms: NOW_MS - 40 * 24 * HOUR_MS });
    assert.equal(await lookupToken(redis, tokenHash(text)), null);
    assert.deepEqual(await listTokens(redis, 'brief'), []);
    const left = (await redis.keys('*tokens')).map((key) => redis.sismember(key, tokenHash(text)));
    assert.ok((await Promise.all(left)).every((is) => is === 0));
  });

  it('are revoked by an id that names one, and no other', async () => {
    const { record } = await createToken(redis, { account: 'acme', scope: 'read', expires_in_ms: null, now_ms: NOW_MS });
    for (const id of [
      '',
      'tok_',
      record.id.slice(0, -1),
      `${record.id}x`,
      `${record.id.slice(0, -4)}0000`,
      record.id.replace('tok_', 'tuk_'),
    ]) {
      assert.equal(await revokeToken(redis, id, NOW_MS), null);
    }
  });

  it('belong to accounts with a name that can be written down', async () => {
    for (const account of ['', 'a b', 'a,b', 'a=b', 'ä', 'x'.repeat(65)]) {
      await assert.rejects(createToken(redis, { account, scope: 'read', expires_in_ms: null, now_ms: NOW_MS }), /account name/);
    }
  });
});

describe('the local token', () => {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-token-'));
  after(() => rmSync(dir, { recursive: true, force: true }));

  it('is made once, for its owner only, and is the same from then on', () => {
    const made = ensureLocalToken(join(dir, 'data'));
    assert.ok(made.created && isTokenText(made.token));
    assert.equal(statSync(made.path).mode & 0o777, 0o600);
    assert.equal(readFileSync(made.path, 'utf8'), `${made.token}\n`);
    assert.deepEqual(ensureLocalToken(join(dir, 'data')), { ...made, created: false });
  });

  it('is not replaced where the file holds something else', () => {
    writeFileSync(join(dir, 'token'), 'notes');
    assert.throws(() => ensureLocalToken(dir), /does not hold an access token/);
  });
});
