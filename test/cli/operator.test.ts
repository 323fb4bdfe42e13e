// Commands that work on Redis itself, and how the command line speaks.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { isTokenText, lookupToken, tokenHash } from '../../src/store/tokens.ts';
import { startRedis } from '../helpers/redis.ts';
import { freshDir, sluice as run } from './sluice.ts';

const { redis, path } = await startRedis();
const dir = freshDir();

const sluice = (args: string, env: Record<string, string> = { SLUICE_REDIS_URL: `unix://${path}` }) =>
  run(args.split(' ').filter(Boolean), env);

describe('the command line', () => {
  it('makes a token, and prints its text and nothing else to standard output', async () => {
    const { code, out, err } = await sluice('token create --account acme --expires 90d');
    assert.equal(code, 0, err);
    assert.ok(isTokenText(out.trim()));
    const record = await lookupToken(redis, tokenHash(out.trim()));
    assert.deepEqual([record?.account, record?.scope], ['acme', 'write']);
    assert.equal((record?.expires_at_ms ?? 0) - (record?.created_at_ms ?? 0), 90 * 86_400_000);
    assert.match(err, /account acme, scope write, until \d{4}-/);
  });

  it('lists and revokes tokens by their ids', async () => {
    const { out } = await sluice('token create --account ops --scope admin --json');
    const made = JSON.parse(out) as { token: string; id: string };
    const listed = JSON.parse((await sluice('token list --account ops --json')).out) as { id: string; revoked_at: string | null }[];
    assert.deepEqual(
      listed.map(({ id, revoked_at }) => [id, revoked_at]),
      [[made.id, null]],
    );
    const revoked = await sluice(`token revoke ${made.id}`);
    assert.deepEqual([revoked.code, revoked.err.startsWith(`${made.id} of account ops was revoked at`)], [0, true]);
    const table = (await sluice('token list')).out;
    assert.match(table, new RegExp(`^${made.id} +ops +admin +\\S+Z +revoked at \\S+Z$`, 'm'));
    assert.ok(!table.includes(made.token.slice(4)));
    assert.equal((await sluice('token revoke tok_nothing')).code, 1);
  });

  it('shows and rotates the signing secrets of an account', async () => {
    const read = async (args: string) =>
      JSON.parse((await sluice(args)).out) as { id: string; secret: string; expires_at: string | null }[];
    const [first] = await read('secret show --account acme --json');
    assert.match(first?.secret ?? '', /^whsec_/);
    const [second, old] = await read('secret rotate --account acme --json');
    assert.deepEqual([old?.id, old?.expires_at === null, second?.expires_at], [first?.id, false, null]);
  });

  it('prints the number of partitions', async () => {
    assert.deepEqual(await sluice('partitions'), { code: 0, out: '16\n', err: '' });
  });

  it('raises the number of partitions, and only raises it', async () => {
    assert.deepEqual(await sluice('partitions grow 32'), { code: 0, out: '32\n', err: 'There were 16 partitions, now there are 32.\n' });
    assert.equal((await sluice('partitions')).out, '32\n');
    for (const [wanted, said] of [
      ['32', /There are 32 partitions already/],
      ['8', /can only grow/],
      ['1025', /1024 partitions at most/],
    ] as const) {
      const { code, out, err } = await sluice(`partitions grow ${wanted}`);
      assert.deepEqual([code, out], [1, ''], wanted);
      assert.match(err, said);
    }
    assert.equal((await sluice('partitions')).out, '32\n');
  });

  it('says what it does not understand, with exit code 2', async () => {
    for (const [args, said] of [
      ['', /Usage:/],
      ['frobnicate', /"frobnicate" is not a command/],
      ['token', /^Usage:\n {2}sluice token create/],
      ['token frobnicate', /^"token frobnicate" is not a command\.\n\nUsage:\n {2}sluice token create/],
      ['batch create -f - --token t --expiration 0', /--expiration must be more than 0 hours/],
      ['token create', /--account is missing/],
      ['token create --account a --scope root', /--scope must be one of read, write, admin/],
      ['token create --account a --expires never', /--expires must be a number/],
      ['token create --acount a', /--acount/],
      ['token revoke', /Something is missing/],
      ['partitions 5', /"5" is too much/],
      ['partitions grow', /Something is missing/],
      ['partitions grow many', /must be a whole number/],
    ] as const) {
      const { code, out, err } = await sluice(args);
      assert.deepEqual([code, out], [2, ''], args);
      assert.match(err, said, args);
    }
  });

  it('explains itself', async () => {
    const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string };
    assert.deepEqual(await sluice('--version'), { code: 0, out: `${version}\n`, err: '' });
    assert.match((await sluice('--help')).out, /sluice token create +Make an access token/);
    assert.match((await sluice('token revoke --help')).out, /^Usage:\n {2}sluice token revoke ID \[--json\]\n\nMake a token useless/);
    assert.match((await sluice('token --help')).out, /^Usage:\n {2}sluice token create/);
  });

  it('speaks JSON where it is asked to, also of what went wrong', async () => {
    assert.deepEqual(JSON.parse((await sluice('partitions --json')).out), { partitions: 32 });
    const { out } = await sluice('token create --account acme --json');
    const { id } = JSON.parse(out) as { id: string };
    const revoked = JSON.parse((await sluice(`token revoke ${id} --json`)).out) as { id: string; revoked_at: string | null };
    assert.deepEqual([revoked.id, revoked.revoked_at === null], [id, false]);
    const wrong = await sluice('token revoke tok_nothing --json');
    assert.equal((JSON.parse(wrong.err) as { error: { code: string } }).error.code, 'token_not_found');
    assert.equal((await sluice('token create --json')).err, '{"error":{"code":"usage","message":"--account is missing.","details":{}}}\n');
  });

  it('says why it cannot reach what it needs, by its exit code too', async () => {
    const nowhere = await sluice('token list', { SLUICE_DATA_DIR: join(dir, 'nothing') });
    assert.deepEqual([nowhere.code, nowhere.out], [1, '']);
    assert.match(nowhere.err, /There is no data directory/);
    const away = await sluice('token list', { SLUICE_REDIS_URL: `unix://${dir}/nobody` });
    assert.deepEqual([away.code, away.out], [3, '']);
    const unusable = await sluice('serve', { SLUICE_DATA_DIR: join(fileURLToPath(import.meta.url), 'data') });
    assert.deepEqual([unusable.code, unusable.out], [3, '']);
    assert.match(unusable.err, /^The data directory .* cannot be used: /);
    const wrong = await sluice('token list', { SLUICE_PORT: 'x' });
    assert.deepEqual([wrong.code, wrong.err.includes('SLUICE_PORT')], [2, true]);
  });

  it('works on the embedded Redis before a server ever ran', async () => {
    const env = { SLUICE_DATA_DIR: join(dir, 'data') };
    const { code, out, err } = await sluice('token create --account first', env);
    assert.deepEqual([code, isTokenText(out.trim())], [0, true], err);
    assert.match((await sluice('token list', env)).out, / first +write /);
  });
});
