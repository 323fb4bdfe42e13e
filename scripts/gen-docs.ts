// Writes docs/config.md, docs/metrics.md, docs/errors.md and docs/cli.md from the tables in the source. With --check, only says
// whether they are stale.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { ERRORS, type ErrorName, wireCode } from '../src/base/errors.ts';
import { type Command, EXIT_MEANINGS, type Needs } from '../src/cli/command.ts';
import { optionText, usage } from '../src/cli/help.ts';
import { COMMANDS, optionsOf } from '../src/cli/table.ts';
import { CLIENT_NAMES, SETTINGS } from '../src/config.ts';
import { METRICS, type MetricRow } from '../src/metrics/table.ts';
import type { Setting } from '../src/setting.ts';

const ROOT = new URL('../', import.meta.url);

/** Path from the repository's root → text. */
export function renderDocs(): Record<string, string> {
  return {
    'docs/config.md': renderConfig(),
    'docs/metrics.md': renderMetrics(),
    'docs/errors.md': renderErrors(),
    'docs/cli.md': renderCli(),
  };
}

/** The files whose text is not what the tables say. */
export function staleDocs(): string[] {
  return Object.entries(renderDocs()).flatMap(([path, text]) => (current(path) === text ? [] : [path]));
}

function current(path: string): string | null {
  try {
    return readFileSync(new URL(path, ROOT), 'utf8');
  } catch {
    return null;
  }
}

function renderConfig(): string {
  const rows = Object.values<Setting<unknown>>(SETTINGS).map((row) => {
    const value = row.default_text ?? (row.default === null ? '' : `\`${row.default}\``);
    return [`\`SLUICE_${row.env}\``, value, row.range, row.meaning];
  });
  return page(
    'Configuration',
    `Sluice is configured by environment variables. An empty value counts as not given. A wrong value, or a \`SLUICE_\` name that is not
in this table, stops the start with a message that lists all faults. Durations are seconds, or a number with \`s\`, \`m\`, \`h\` or \`d\`;
lists have commas. Values that hold secrets are never logged.

Variables that Kubernetes injects for a Service named "sluice" (\`SLUICE_SERVICE_HOST\`, \`SLUICE_PORT=tcp://…\` and their kin) are ignored.
${[...CLIENT_NAMES].map((name) => `\`${name}\``).join(' and ')} are read by the command line's client only.`,
    ['Setting', 'Default', 'Values', 'Meaning'],
    rows,
  );
}

function renderMetrics(): string {
  const rows = Object.entries<MetricRow>(METRICS).map(([name, row]) => {
    const labels = row.labels.map((label) => `\`${label}\``).join(', ');
    return [`\`sluice_${name}\``, row.kind, labels, row.help, row.question];
  });
  return page(
    'Metrics',
    `Served at \`/metrics\` in Prometheus' text format, for the whole process with all its threads; the usual \`process_…\` and
\`nodejs_…\` metrics of the process are there too. No metric has an account, an id or a URL in its labels.`,
    ['Metric', 'Kind', 'Labels', 'Meaning', 'The question it answers'],
    rows,
  );
}

function renderErrors(): string {
  const names = Object.keys(ERRORS) as ErrorName[];
  const rows = names.map((name) => [String(ERRORS[name].status), `\`${wireCode(name)}\``, ERRORS[name].text]);
  return page(
    'Errors',
    `Every error answer has the body \`{"error": {"code", "message", "details"}}\`; \`details\` is always an object. Codes are stable,
messages are for people and may change. 429 and 503 carry \`Retry-After\` in whole seconds.`,
    ['HTTP', '`error.code`', 'Meaning'],
    rows,
  );
}

const NEEDS: Record<Needs, string> = {
  redis: 'Works on Redis itself, by the settings of the server (`SLUICE_…`, see [configuration](config.md)).',
  server: 'Asks the service, at `--url` or `SLUICE_URL`, with the token of `--token` or `SLUICE_TOKEN`.',
  nothing: '',
};

function renderCli(): string {
  const rows = EXIT_MEANINGS.map(([code, meaning]) => [String(code), meaning]);
  const top = page(
    'Command line',
    `\`bin/sluice\` after \`make build\`. Standard output carries what a script wants to read, everything else goes to standard error; with
\`--json\` both are JSON. In bash, \`source <(bin/sluice completion bash)\` completes commands and options.`,
    ['Exit code', 'Meaning'],
    rows,
  );
  return `${top}\n${COMMANDS.map(renderCommand).join('\n')}`;
}

function renderCommand(command: Command): string {
  const options = Object.entries(optionsOf(command)).filter(([name]) => !['help', 'json', 'url', 'token'].includes(name));
  const about = [command.summary, command.about ?? '', NEEDS[command.needs]].filter((part) => part !== '').join('\n\n');
  const rows = options.map(([name, option]) => [`\`${optionText(name, option)}\``, option.meaning]);
  const list = rows.length === 0 ? '' : `\n${table(['Option', 'Meaning'], rows)}\n`;
  return `## ${command.name}\n\n\`\`\`\n${usage(command)}\n\`\`\`\n\n${about}\n${list}`;
}

function page(title: string, intro: string, head: string[], rows: string[][]): string {
  return `<!-- Made by scripts/gen-docs.ts from the tables in the source. Do not edit. -->\n\n# ${title}\n\n${intro}\n\n${table(head, rows)}\n`;
}

function table(head: string[], rows: string[][]): string {
  const line = (cells: string[]): string => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const stale = staleDocs();
  if (!process.argv.includes('--check')) {
    const texts = renderDocs();
    for (const path of stale) writeFileSync(new URL(path, ROOT), texts[path] ?? '');
  } else if (stale.length > 0) {
    console.error(`Stale, run scripts/gen-docs.ts: ${stale.join(', ')}`);
    process.exitCode = 1;
  }
}
