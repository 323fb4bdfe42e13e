// The command table, in the order of the help.
import { BATCH_COMMANDS } from './batch.ts';
import { BATCH_CREATE } from './batch-create.ts';
import { BENCH } from './bench.ts';
import { type Command, EXIT, type ExitCode, type Given, type Option, UsageError } from './command.ts';
import { completionScript, SHELLS } from './completion.ts';
import { DOCTOR } from './doctor.ts';
import { LIMITER_COMMANDS } from './limiter.ts';
import { print } from './output.ts';
import { PARTITION_COMMANDS } from './partitions.ts';
import { PLAN } from './plan.ts';
import { SCHEDULE_COMMANDS } from './schedule.ts';
import { SECRET_COMMANDS } from './secret.ts';
import { SERVER_OPTIONS } from './server.ts';
import { TOKEN_COMMANDS } from './token.ts';

/** Every command takes these, but `serve` and `completion` no `--json`. */
const JSON_OUT: Option = { type: 'boolean', meaning: 'Print JSON, and errors as JSON too.' };
const HELP: Option = { type: 'boolean', short: 'h', meaning: 'Say how it is used.' };
const WITHOUT_JSON = new Set(['serve', 'completion']);

export const COMMANDS: readonly Command[] = [
  { name: 'serve', words: [], summary: 'Run the server.', options: {}, needs: 'nothing', run: serve },
  ...TOKEN_COMMANDS,
  ...SECRET_COMMANDS,
  ...PARTITION_COMMANDS,
  BATCH_CREATE,
  ...BATCH_COMMANDS,
  ...SCHEDULE_COMMANDS,
  ...LIMITER_COMMANDS,
  DOCTOR,
  PLAN,
  BENCH,
  {
    name: 'completion',
    words: ['SHELL'],
    summary: 'Print the completion for bash or zsh.',
    about:
      'In bash: `source <(sluice completion bash)`, in `~/.bashrc` for always. In zsh: `source <(sluice completion zsh)`, in `~/.zshrc`.',
    options: {},
    needs: 'nothing',
    run: completion,
  },
];

/** All options of a command: its own first. */
export function optionsOf(command: Command): Readonly<Record<string, Option>> {
  return {
    ...command.options,
    ...(command.needs === 'server' ? SERVER_OPTIONS : {}),
    ...(WITHOUT_JSON.has(command.name) ? {} : { json: JSON_OUT }),
    help: HELP,
  };
}

async function completion(given: Given): Promise<ExitCode> {
  const shell = SHELLS.find((one) => one === given.word(0));
  if (shell === undefined) throw new UsageError(`The shell must be one of ${SHELLS.join(', ')}.`);
  print(completionScript(shell, COMMANDS, optionsOf).trimEnd());
  return EXIT.done;
}

async function serve(): Promise<ExitCode> {
  const { main } = await import('../main.ts');
  return (await main()) as ExitCode;
}
