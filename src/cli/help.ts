// How commands are written, for people: one line of usage, the help of some of them.
import type { Command, Option } from './command.ts';
import { optionsOf } from './table.ts';

/** `sluice token create --account NAME [--scope read|write|admin] [--json]` */
export function usage(command: Command): string {
  const options = Object.entries(optionsOf(command)).filter(([name]) => name !== 'help');
  const texts = options.map(([name, option]) => optionUsage(name, option));
  return ['sluice', command.name, ...command.words, ...texts].join(' ');
}

/** `--scope read|write|admin`, without brackets. */
export function optionText(name: string, { type, short, value, choices }: Option): string {
  const names = short === undefined ? `--${name}` : `-${short}, --${name}`;
  return type === 'boolean' ? names : `${names} ${choices?.join('|') ?? value ?? 'VALUE'}`;
}

function optionUsage(name: string, option: Option): string {
  const text = optionText(name, { ...option, ...(option.short === undefined ? {} : { short: option.short }) }).replace(/, --[\w-]+/, '');
  return option.required === true ? text : `[${text}]${option.multiple === true ? '…' : ''}`;
}

/** What all of them do, one line each. */
export function overview(commands: readonly Command[]): string {
  const width = Math.max(...commands.map((command) => head(command).length));
  const lines = commands.map((command) => `  ${head(command).padEnd(width)}  ${command.summary}`);
  return `Usage:\n${lines.join('\n')}\n\n\`sluice COMMAND --help\` says what a command takes. ${SETTINGS}`;
}

/** One command in full. */
export function detail(command: Command): string {
  const options = Object.entries(optionsOf(command)).map(([name, option]) => [optionText(name, option), option] as const);
  const width = Math.max(...options.map(([text]) => text.length));
  const lines = options.map(([text, option]) => `  ${text.padEnd(width)}  ${plain(option.meaning)}`);
  const about = command.about === undefined ? '' : `${plain(command.about)}\n\n`;
  return `Usage:\n  ${usage(command)}\n\n${command.summary}\n\n${about}${lines.join('\n')}`;
}

const SETTINGS = 'Settings are read from the environment (SLUICE_…), as the server does.';

function head({ name, words }: Command): string {
  return ['sluice', name, ...words].join(' ');
}

/** Without the marks of Markdown. */
function plain(text: string): string {
  return text.replaceAll('`', '');
}
