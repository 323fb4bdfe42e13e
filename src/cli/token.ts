// `sluice token …`: access tokens. Only the hash of one is stored, so its text is shown once.
import { createToken, isLive, listTokens, revokeToken, SCOPES, type TokenRecord } from '../store/tokens.ts';
import { type Command, durationMs, EXIT, type ExitCode, Failure, type Given, UsageError } from './command.ts';
import { print, show, table, time, warn } from './output.ts';
import { ACCOUNT, accountOf, withStore } from './redis.ts';

const EXPIRES_MAX_D = 3_650;

export const TOKEN_COMMANDS: readonly Command[] = [
  {
    name: 'token create',
    words: [],
    summary: 'Make an access token (scope write) and print it, this once.',
    options: {
      account: { ...ACCOUNT, required: true },
      scope: { type: 'string', choices: SCOPES, meaning: 'What it may do: `write` includes `read`, `admin` includes `write`.' },
      expires: { type: 'string', value: '90d', meaning: 'How long it is valid; without, until it is revoked.' },
    },
    needs: 'redis',
    run: tokenCreate,
  },
  {
    name: 'token list',
    words: [],
    summary: 'List access tokens, never their text.',
    options: { account: ACCOUNT },
    needs: 'redis',
    run: tokenList,
  },
  {
    name: 'token revoke',
    words: ['ID'],
    summary: 'Make a token useless, within 5 seconds.',
    options: {},
    needs: 'redis',
    run: tokenRevoke,
  },
];

async function tokenCreate(given: Given): Promise<ExitCode> {
  const account = accountOf(given);
  const scope = SCOPES.find((one) => one === (given.text('scope') ?? 'write'));
  if (scope === undefined) throw new UsageError(`--scope must be one of ${SCOPES.join(', ')}.`);
  const expires = given.text('expires');
  const expires_in_ms = expires === null ? null : durationMs('expires', expires, EXPIRES_MAX_D);
  // The first token may be made before the first start.
  const { text, record } = await withStore({ fresh: true }, ({ client }) =>
    createToken(client, { account, scope, expires_in_ms, now_ms: Date.now() }),
  );
  show(given.json, { token: text, ...shown(record) }, () => text);
  if (!given.json) warn(`${record.id}: account ${account}, scope ${scope}, ${until(record)}. The token is not shown again.`);
  return EXIT.done;
}

async function tokenList(given: Given): Promise<ExitCode> {
  const account = given.text('account') === null ? null : accountOf(given);
  const records = await withStore({}, ({ client }) => listTokens(client, account));
  if (given.json) print(JSON.stringify(records.map(shown)));
  else if (records.length === 0)
    warn('There are no tokens in Redis. (Those of SLUICE_ACCESS_TOKENS and of the data directory are not listed.)');
  else {
    const rows = records.map((record) => [record.id, record.account, record.scope, time(record.created_at_ms), until(record)]);
    print(table([['ID', 'ACCOUNT', 'SCOPE', 'CREATED', 'VALID'], ...rows]));
  }
  return EXIT.done;
}

async function tokenRevoke(given: Given): Promise<ExitCode> {
  const id = given.word(0);
  const record = await withStore({}, ({ client }) => revokeToken(client, id, Date.now()));
  if (record === null) throw new Failure(`No token has the id ${id}; \`sluice token list\` shows them.`, { code: 'token_not_found' });
  if (given.json) print(JSON.stringify(shown(record)));
  else warn(`${record.id} of account ${record.account} was ${until(record)}.`);
  return EXIT.done;
}

function shown({ id, account, scope, created_at_ms, expires_at_ms, revoked_at_ms }: TokenRecord): Record<string, string | null> {
  const orNull = (ms: number | null): string | null => (ms === null ? null : time(ms));
  return { id, account, scope, created_at: time(created_at_ms), expires_at: orNull(expires_at_ms), revoked_at: orNull(revoked_at_ms) };
}

function until(record: TokenRecord): string {
  if (record.revoked_at_ms !== null) return `revoked at ${time(record.revoked_at_ms)}`;
  if (record.expires_at_ms === null) return 'without an end';
  return `${isLive(record, Date.now()) ? 'until' : 'expired at'} ${time(record.expires_at_ms)}`;
}
