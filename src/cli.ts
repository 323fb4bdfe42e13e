// The command line: `sluice serve`, and what an operator does beside a running server. It talks to Redis as the server
// does, by the same settings. What a script wants to read goes to standard output, everything else to standard error.
// Exit codes: 0 done, 1 failed, 2 not understood.
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { type ParseArgsConfig, parseArgs } from 'node:util';
import { accountId } from './base/id.ts';
import { createLog } from './base/log.ts';
import { ConfigError, loadConfig } from './config.ts';
import { isUnavailable, openStore, type Store, StoreRefused } from './store/connect.ts';
import { growPartitions } from './store/partition-count.ts';
import { rotateSecret, type SigningSecret, signingSecrets } from './store/secrets.ts';
import { createToken, isAccountName, isLive, listTokens, revokeToken, SCOPES, type TokenRecord } from './store/tokens.ts';

type Values = Record<string, string | boolean | undefined>;
type Options = NonNullable<ParseArgsConfig['options']>;

interface Command {
  /** Words that name it: `token create`. */
  name: string;
  /** What follows the name. */
  usage: string;
  summary: string;
  options: Options;
  /** How many words it takes after its name. */
  words: number;
  run(values: Values, words: readonly string[]): Promise<number>;
}

/** The command line makes no sense; the message says why. */
class UsageError extends Error {}
/** It makes sense, but cannot be done. */
class Failure extends Error {}

const UNIT_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const EXPIRES_MAX_MS = 3_650 * 86_400_000;
const ACCOUNT = { account: { type: 'string' } } as const satisfies Options;
const JSON_OUT = { json: { type: 'boolean' } } as const satisfies Options;

const COMMANDS: readonly Command[] = [
  { name: 'serve', usage: '', summary: 'Run the server.', options: {}, words: 0, run: serve },
  {
    name: 'token create',
    usage: '--account NAME [--scope read|write|admin] [--expires 90d] [--json]',
    summary: 'Make an access token (scope write) and print it, this once.',
    options: { ...ACCOUNT, ...JSON_OUT, scope: { type: 'string' }, expires: { type: 'string' } },
    words: 0,
    run: tokenCreate,
  },
  {
    name: 'token list',
    usage: '[--account NAME] [--json]',
    summary: 'List access tokens, never their text.',
    options: { ...ACCOUNT, ...JSON_OUT },
    words: 0,
    run: tokenList,
  },
  {
    name: 'token revoke',
    usage: 'ID',
    summary: 'Make a token useless, within 5 seconds.',
    options: {},
    words: 1,
    run: tokenRevoke,
  },
  {
    name: 'secret show',
    usage: '--account NAME [--json]',
    summary: 'Show the secrets that sign the callbacks of an account.',
    options: { ...ACCOUNT, ...JSON_OUT },
    words: 0,
    run: (values) => secrets(values, signingSecrets),
  },
  {
    name: 'secret rotate',
    usage: '--account NAME [--json]',
    summary: 'Make a new one; the old one stays valid for 24 hours.',
    options: { ...ACCOUNT, ...JSON_OUT },
    words: 0,
    run: (values) => secrets(values, rotateSecret),
  },
  {
    name: 'partitions grow',
    usage: 'NUMBER',
    summary: 'Raise the number of partitions, also while servers run: they follow within 5 seconds. It never goes down again.',
    options: {},
    words: 1,
    run: partitionsGrow,
  },
  { name: 'partitions', usage: '', summary: 'Print the number of partitions.', options: {}, words: 0, run: partitions },
];

process.exitCode = await run(process.argv.slice(2));

async function run(argv: readonly string[]): Promise<number> {
  if (argv.length === 0 || ['help', '--help', '-h'].includes(argv[0] ?? '')) {
    (argv.length === 0 ? warn : print)(help(COMMANDS));
    return argv.length === 0 ? 2 : 0;
  }
  const found = COMMANDS.find(({ name }) => name === argv.slice(0, name.split(' ').length).join(' '));
  if (found === undefined) return unknown(argv);
  try {
    const { values, positionals } = parseArgs({
      args: argv.slice(found.name.split(' ').length),
      options: { ...found.options, help: { type: 'boolean', short: 'h' } },
      allowPositionals: true,
    });
    if (values['help'] === true) {
      print(help([found]));
      return 0;
    }
    if (positionals.length !== found.words)
      throw new UsageError(positionals.length > found.words ? `"${positionals[found.words]}" is too much.` : 'Something is missing.');
    return await found.run(values as Values, positionals);
  } catch (error) {
    return explain(found, error);
  }
}

/** Says what is wrong in words where it is nobody's bug. */
function explain(command: Command, error: unknown): number {
  if (!(error instanceof Error)) throw error;
  const misread = 'code' in error && String(error.code).startsWith('ERR_PARSE_ARGS');
  if (misread || error instanceof UsageError) {
    warn(`${error.message}\nUsage: ${usage(command)}`);
    return 2;
  }
  if (error instanceof ConfigError) {
    warn(error.message);
    return 2;
  }
  if (error instanceof Failure || error instanceof StoreRefused || isUnavailable(error)) {
    warn(error.message);
    return 1;
  }
  throw error;
}

function unknown(argv: readonly string[]): number {
  const group = COMMANDS.filter(({ name }) => name.startsWith(`${argv[0]} `));
  warn(group.length > 0 ? help(group) : `"${argv[0]}" is not a command.\n\n${help(COMMANDS)}`);
  return 2;
}

async function serve(): Promise<number> {
  const { main } = await import('./main.ts');
  return main();
}

async function tokenCreate(values: Values): Promise<number> {
  const account = accountOf(values);
  const scope = SCOPES.find((one) => one === (values['scope'] ?? 'write'));
  if (scope === undefined) throw new UsageError(`--scope must be one of ${SCOPES.join(', ')}.`);
  const expires_in_ms = values['expires'] === undefined ? null : readDuration(String(values['expires']));
  // The first token may be made before the first start.
  const { text, record } = await withStore({ fresh: true }, ({ client }) =>
    createToken(client, { account, scope, expires_in_ms, now_ms: Date.now() }),
  );
  if (values['json'] === true) print(JSON.stringify({ token: text, ...shown(record) }));
  else {
    print(text);
    warn(`${record.id}: account ${account}, scope ${scope}, ${until(record)}. The token is not shown again.`);
  }
  return 0;
}

async function tokenList(values: Values): Promise<number> {
  const account = values['account'] === undefined ? null : accountOf(values);
  const records = await withStore({}, ({ client }) => listTokens(client, account));
  if (values['json'] === true) print(JSON.stringify(records.map(shown)));
  else if (records.length === 0)
    warn('There are no tokens in Redis. (Those of SLUICE_ACCESS_TOKENS and of the data directory are not listed.)');
  else {
    const rows = records.map((record) => [record.id, record.account, record.scope, time(record.created_at_ms), until(record)]);
    print(table([['ID', 'ACCOUNT', 'SCOPE', 'CREATED', 'VALID'], ...rows]));
  }
  return 0;
}

async function tokenRevoke(_values: Values, [id = '']: readonly string[]): Promise<number> {
  const record = await withStore({}, ({ client }) => revokeToken(client, id, Date.now()));
  if (record === null) throw new Failure(`No token has the id ${id}; \`sluice token list\` shows them.`);
  warn(`${record.id} of account ${record.account} was ${until(record)}.`);
  return 0;
}

async function secrets(values: Values, ask: (client: Store['client'], account_id: string) => Promise<SigningSecret[]>): Promise<number> {
  const account = accountOf(values);
  const found = await withStore({}, ({ client }) => ask(client, accountId(account)));
  const fields = found.map(({ id, secret, created_ms, expires_ms }) => ({
    id,
    secret,
    created_at: time(created_ms),
    expires_at: expires_ms === null ? null : time(expires_ms),
  }));
  if (values['json'] === true) print(JSON.stringify(fields));
  else
    print(
      table([
        ['ID', 'SECRET', 'CREATED', 'EXPIRES'],
        ...fields.map((one) => [one.id, one.secret, one.created_at, one.expires_at ?? 'never']),
      ]),
    );
  return 0;
}

async function partitions(): Promise<number> {
  print(String(await withStore({}, async (store) => store.partitions)));
  return 0;
}

async function partitionsGrow(_values: Values, [text = '']: readonly string[]): Promise<number> {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new UsageError('The number of partitions must be a whole number, such as 64.');
  const outcome = await withStore({}, ({ client }) => growPartitions(client, Number(text)));
  if (outcome.kind === 'refused') throw new Failure(outcome.reason);
  print(String(outcome.to));
  warn(`There were ${outcome.from} partitions, now there are ${outcome.to}.`);
  return 0;
}

/**
 * Runs `work` on the Redis that the settings name. Where that is the embedded one, a running server's is shared, else it
 * is started for as long as this takes. `fresh`: also where there is no data directory yet.
 */
async function withStore<T>({ fresh = false }: { fresh?: boolean }, work: (store: Store) => Promise<T>): Promise<T> {
  const { redis_url, data_dir, partitions } = loadConfig(process.env);
  if (redis_url === null && !fresh && !existsSync(data_dir)) {
    throw new Failure(
      `There is no data directory ${resolve(data_dir)}: run this where the server runs, or set SLUICE_DATA_DIR or SLUICE_REDIS_URL.`,
    );
  }
  const log = createLog({ level: 'error', destination: process.stderr });
  const store = await openStore({ redis_url, data_dir, partitions, log, role: 'cli' });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

function accountOf(values: Values): string {
  const account = values['account'];
  if (typeof account !== 'string') throw new UsageError('--account is missing.');
  if (!isAccountName(account)) throw new UsageError('An account name is 1 to 64 visible ASCII characters, without comma and equals sign.');
  return account;
}

function readDuration(text: string): number {
  const [, digits = '', unit = ''] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  const duration_ms = Number(digits) * (UNIT_MS[unit] ?? Number.NaN);
  if (!(duration_ms > 0 && duration_ms <= EXPIRES_MAX_MS))
    throw new UsageError('--expires must be a number with s, m, h or d, such as 90d; at most 3650d.');
  return duration_ms;
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

function time(ms: number): string {
  return new Date(ms).toISOString();
}

function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

function usage({ name, usage }: Command): string {
  return `sluice ${name} ${usage}`.trimEnd();
}

function help(commands: readonly Command[]): string {
  const lines = commands.map((command) => `  ${usage(command)}\n      ${command.summary}`);
  return `Usage:\n${lines.join('\n')}\n\nSettings are read from the environment (SLUICE_…), as the server does.`;
}

function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

function warn(text: string): void {
  process.stderr.write(`${text}\n`);
}
