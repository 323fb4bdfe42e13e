import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { isTokenText, lookupToken, tokenHash } from '../src/store/tokens.ts';
import { startRedis } from './helpers/redis.ts';

const CLI = fileURLToPath(new URL('../src/cli.ts', import.meta.url));
const { redis, path } = await startRedis();
const dir = mkdtempSync(join(tmpdir(), 'sluice-cli-'));
after(() => rmSync(dir, { recursive: true, force: true }));

async function sluice(args: string, env: Record<string, string> = { SLUICE_REDIS_URL: `unix://${path}` }) {
  const child = spawn(process.execPath, ['--import', 'tsx', CLI, ...args.split(' ').filter(Boolean)], {
    env: { PATH: process.env['PATH'] ?? '', ...env },
  });
  let [out, err] = ['', ''];
  child.stdout.on('data', (data) => {
    out += data;
  });
  child.stderr.on('data', (data) => {
    err += data;
  });
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { code, out, err };
}

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
      ['token', /sluice token create/],
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
    assert.match((await sluice('--help')).out, /sluice token create --account NAME/);
    assert.match((await sluice('token revoke --help')).out, /^Usage:\n {2}sluice token revoke ID\n/);
  });

  it('says why it cannot reach what it needs, with exit code 1', async () => {
    const nowhere = await sluice('token list', { SLUICE_DATA_DIR: join(dir, 'nothing') });
    assert.deepEqual([nowhere.code, nowhere.out], [1, '']);
    assert.match(nowhere.err, /There is no data directory/);
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
