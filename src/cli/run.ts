// One run of the command line: finds the command, reads its options, runs it, says in words what went wrong.
import { parseArgs } from 'node:util';
import { SluiceError } from '../client/index.ts';
import { ConfigError } from '../config.ts';
import { isUnavailable, StoreRefused } from '../store/errors.ts';
import { VERSION } from '../version.ts';
import { type Command, EXIT, type ExitCode, Failure, Given, UsageError } from './command.ts';
import { detail, overview, usage } from './help.ts';
import { print, warn } from './output.ts';
import { COMMANDS, optionsOf } from './table.ts';

const HELP_WORDS: readonly string[] = ['help', '--help', '-h'];
const VERSION_WORDS: readonly string[] = ['version', '--version', '-V'];

/** Resolves with the exit code; rejects on a bug alone. */
export async function run(argv: readonly string[]): Promise<ExitCode> {
  const [first] = argv;
  if (first === undefined || HELP_WORDS.includes(first)) {
    (first === undefined ? warn : print)(overview(COMMANDS));
    return first === undefined ? EXIT.misused : EXIT.done;
  }
  if (VERSION_WORDS.includes(first)) {
    print(VERSION);
    return EXIT.done;
  }
  // The longest name first: `partitions grow` is not `partitions`.
  const found = COMMANDS.find(({ name }) => name === argv.slice(0, name.split(' ').length).join(' '));
  if (found === undefined) return unknown(argv);
  const args = argv.slice(found.name.split(' ').length);
  try {
    const { values, positionals } = parseArgs({ args, options: parseOptions(found), allowPositionals: true });
    if (values['help'] === true) {
      print(detail(found));
      return EXIT.done;
    }
    const extra = positionals[found.words.length];
    if (extra !== undefined) throw new UsageError(`"${extra}" is too much.`);
    if (positionals.length < found.words.length) throw new UsageError(`Something is missing: ${found.words[positionals.length]}.`);
    const given = new Given(values, positionals);
    checkOptions(found, given);
    return await found.run(given);
  } catch (error) {
    return explain(found, error, args.includes('--json'));
  }
}

/** The options as parseArgs wants them. */
function parseOptions(command: Command) {
  const rows = Object.entries(optionsOf(command)).map(([name, { type, short, multiple = false }]) => {
    return [name, { type, multiple, ...(short === undefined ? {} : { short }) }] as const;
  });
  return Object.fromEntries(rows);
}

function checkOptions(command: Command, given: Given): void {
  for (const [name, { required, choices }] of Object.entries(optionsOf(command))) {
    if (required === true) given.must(name);
    const value = given.text(name);
    if (value !== null && choices !== undefined && !choices.includes(value))
      throw new UsageError(`--${name} must be one of ${choices.join(', ')}.`);
  }
}

/** What is nobody's bug, as the error of a Failure. */
function asFailure(error: unknown): Failure | null {
  if (error instanceof Failure) return error;
  if (error instanceof UsageError) return new Failure(error.message, { exit: EXIT.misused, code: 'usage' });
  if (error instanceof ConfigError) return new Failure(error.message, { exit: EXIT.misused, code: 'configuration' });
  if (error instanceof SluiceError) return refused(error);
  if (!(error instanceof Error)) return null;
  if ('code' in error && String(error.code).startsWith('ERR_PARSE_ARGS'))
    return new Failure(error.message, { exit: EXIT.misused, code: 'usage' });
  // What fetch throws where there is nobody.
  if (error.message === 'fetch failed') {
    const cause = error.cause instanceof Error ? error.cause : error;
    const reason = cause.message || ('code' in cause ? String(cause.code) : 'no connection');
    return new Failure(`The service does not answer: ${reason}. Is --url (or SLUICE_URL) right?`, {
      exit: EXIT.unreachable,
      code: 'unreachable',
    });
  }
  if (error instanceof StoreRefused || isUnavailable(error))
    return new Failure(error.message, { exit: EXIT.unreachable, code: 'unreachable' });
  return null;
}

const FAULTS_SHOWN_MAX = 20;

function refused(error: SluiceError): Failure {
  const faults = Array.isArray(error.details['errors']) ? (error.details['errors'] as { path?: string; message?: string }[]) : [];
  const lines = faults.slice(0, FAULTS_SHOWN_MAX).map(({ path = '', message = '' }) => `\n  ${path} ${message}`);
  const more = faults.length > FAULTS_SHOWN_MAX ? `\n  and ${faults.length - FAULTS_SHOWN_MAX} more` : '';
  const hint = error.status === 401 ? ' Give --token, or set SLUICE_TOKEN.' : '';
  return new Failure(`${error.message}${hint}${lines.join('')}${more}`, {
    exit: error.status === 503 || error.status === 502 || error.status === 504 ? EXIT.unreachable : EXIT.failed,
    code: error.code,
    details: error.details,
  });
}

function explain(command: Command, error: unknown, json: boolean): ExitCode {
  const failure = asFailure(error);
  if (failure === null) throw error;
  const { exit, code, message, details } = failure;
  if (json) warn(JSON.stringify({ error: { code, message, details } }));
  else warn(code === 'usage' ? `${message}\nUsage: ${usage(command)}` : message);
  return exit;
}

function unknown(argv: readonly string[]): ExitCode {
  const group = COMMANDS.filter(({ name }) => name.startsWith(`${argv[0]} `));
  if (group.length > 0 && argv.slice(1).some((word) => HELP_WORDS.includes(word))) {
    print(overview(group));
    return EXIT.done;
  }
  const said = argv.slice(0, group.length > 0 ? 2 : 1).join(' ');
  const lacking = group.length > 0 && argv.length === 1;
  warn(`${lacking ? '' : `"${said}" is not a command.\n\n`}${overview(group.length > 0 ? group : COMMANDS)}`);
  return EXIT.misused;
}
