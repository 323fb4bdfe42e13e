import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ApiError } from '../../src/base/errors.ts';
import { Authenticator, allows, isBearer } from '../../src/http/auth.ts';
import { newTokenText, type TokenRecord, tokenHash } from '../../src/store/tokens.ts';
import { openDoor, refused } from './door.ts';

const HERE = () => '127.0.0.1';

function bench(options: { failures_per_minute?: number } = {}) {
  const records = new Map<string, TokenRecord>();
  const state = { now_ms: 1_000_000, down: false, lookups: 0 };
  const auth = new Authenticator({
    clock: () => state.now_ms,
    lookup: async (hash) => {
      state.lookups++;
      if (state.down) throw new Error('Connection is closed.');
      return records.get(hash) ?? null;
    },
    ...options,
  });
  const issue = (more: Partial<TokenRecord> = {}): string => {
    const text = newTokenText();
    const record = { id: 'tok', account: 'acme', scope: 'write' as const, created_at_ms: 0, expires_at_ms: null, revoked_at_ms: null };
    records.set(tokenHash(text), { ...record, ...more });
    return text;
  };
  const check = async (text: string, address = HERE) => auth.check(`Bearer ${text}`, address);
  return { records, state, auth, issue, check };
}

function isError(row: string): (error: unknown) => boolean {
  return (error) => error instanceof ApiError && error.row === row;
}

describe('authentication', () => {
  it('looks a token up once for all who ask at the same time, and then remembers it', async () => {
    const { state, auth, issue, check } = bench();
    const text = issue();
    const callers = await Promise.all(Array.from({ length: 20 }, () => check(text)));
    assert.ok(callers.every(({ account, scope }) => account === 'acme' && scope === 'write'));
    assert.ok(!(auth.check(`Bearer ${text}`, HERE) instanceof Promise));
    assert.equal(state.lookups, 1);
  });

  it('refuses a revoked token within 5 seconds, and an expired one at its time', async () => {
    const { records, state, issue, check } = bench();
    const [revoked, expiring] = [issue(), issue({ expires_at_ms: 1_000_500 })];
    await check(revoked);
    await check(expiring);
    const record = records.get(tokenHash(revoked));
    assert.ok(record);
    records.set(tokenHash(revoked), { ...record, revoked_at_ms: state.now_ms });
    state.now_ms += 500;
    await assert.rejects(check(expiring), isError('unauthorized'));
    state.now_ms += 2_500; // Redis may take 2 s to answer.
    await assert.rejects(check(revoked), isError('unauthorized'));
  });

  it('asks nobody about junk, nor twice about a token that is not there', async () => {
    const { state, check } = bench();
    const text = newTokenText();
    const mistyped = text.slice(0, 10) + (text[10] === 'a' ? 'b' : 'a') + text.slice(11);
    for (const junk of ['x', 'slk_', mistyped, `${text}x`]) await assert.rejects(check(junk), isError('unauthorized'));
    assert.equal(state.lookups, 0);
    await assert.rejects(check(text), isError('unauthorized'));
    await assert.rejects(check(text), isError('unauthorized'));
    assert.equal(state.lookups, 1);
  });

  it('never calls a token bad because Redis is away', async () => {
    const { state, issue, check } = bench();
    const [known, unknown] = [issue(), issue()];
    await check(known);
    state.down = true;
    state.now_ms += 59_000;
    assert.equal((await check(known)).account, 'acme');
    await assert.rejects(check(unknown), isError('unavailable'));
    state.now_ms += 2_000;
    await assert.rejects(check(known), isError('unavailable'));
    state.down = false;
    assert.equal((await check(known)).account, 'acme');
    assert.equal((await check(unknown)).account, 'acme');
  });

  it('stops an address that sends bad tokens, and no other', async () => {
    const { state, issue, check } = bench({ failures_per_minute: 3 });
    const good = issue();
    await check(good);
    for (let i = 0; i < 3; i++) await assert.rejects(check(newTokenText()), isError('unauthorized'));
    await assert.rejects(
      check('junk'),
      (error) => error instanceof ApiError && error.row === 'rate_limited' && (error.retry_after_s ?? 0) >= 1,
    );
    await assert.rejects(check(newTokenText()), isError('rate_limited'));
    // Junk is never looked up, and who has a good token is not held up by others at his address.
    const asked = state.lookups;
    await assert.rejects(check('junk'), isError('rate_limited'));
    assert.equal(state.lookups, asked);
    assert.equal((await check(issue())).account, 'acme');
    // But for an address that floods us.
    for (let i = 0; i < 30; i++) await assert.rejects(check('junk'), isError('rate_limited'));
    assert.equal((await check(issue())).account, 'acme', 'junk floods nobody');
    for (let i = 4; i < 30; i++) await assert.rejects(check(newTokenText()), isError('rate_limited'));
    const looked_up = state.lookups;
    await assert.rejects(check(issue()), isError('rate_limited'));
    assert.equal(state.lookups, looked_up);
    await assert.rejects(
      check('junk', () => '127.0.0.2'),
      isError('unauthorized'),
    );
    state.now_ms += 3_000;
    assert.equal((await check(good)).account, 'acme');
    state.now_ms += 60_000;
    await assert.rejects(check('junk'), isError('unauthorized'));
  });

  it('answers 429 over HTTP when an address has sent too many bad tokens', async () => {
    const auth = new Authenticator({ lookup: async () => null, clock: () => 30_000, failures_per_minute: 1 });
    const door = await openDoor({ auth });
    assert.equal((await door.ask('GET', '/v1/batches', { token: null })).status, 401);
    const response = await door.ask('GET', '/v1/batches', { token: null });
    assert.deepEqual([refused(response).code, response.headers['retry-after']], ['rate_limited', '30']);
  });

  it('holds the tokens of the environment for good, with every right', async () => {
    const fixed = [{ account: 'ops', token: 'any' }];
    const auth = new Authenticator({ lookup: () => Promise.reject(new Error('down')), clock: Date.now, fixed });
    assert.deepEqual((await auth.check('bearer any', HERE)).scope, 'admin');
  });

  it('knows which scope includes which', () => {
    assert.deepEqual(
      [allows('read', 'write'), allows('write', 'read'), allows('admin', 'admin'), allows('write', 'admin')],
      [false, true, true, false],
    );
    assert.deepEqual([isBearer('Bearer a', 'a'), isBearer('Bearer b', 'a'), isBearer('a', 'a')], [true, false, false]);
  });
});
