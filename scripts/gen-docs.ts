// Writes docs/config.md, docs/metrics.md, docs/errors.md, docs/limiters.md, docs/cli.md and docs/api.md from the tables in the source. With
// --check, only says whether they are stale.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { ERRORS, type ErrorName, wireCode } from '../src/base/errors.ts';
import { type Command, EXIT_MEANINGS, type Needs } from '../src/cli/command.ts';
import { optionText, usage } from '../src/cli/help.ts';
import { COMMANDS, optionsOf } from '../src/cli/table.ts';
import { CLIENT_NAMES, SETTINGS } from '../src/config.ts';
import { METRICS, type MetricRow } from '../src/metrics/table.ts';
import { DEFAULT_TIMEOUTS, TIMEOUT_S_MAX } from '../src/schema/limiter.ts';
import type { LimiterKind } from '../src/schema/limiters/kind.ts';
import { LIMITER_KINDS } from '../src/schema/limiters/kinds.ts';
import type { Setting } from '../src/setting.ts';
import { OTEL_VARIABLES } from '../src/tracing/settings.ts';
import { renderApi } from './docs-api.ts';

const ROOT = new URL('../', import.meta.url);

/** Path from the repository's root → text. */
export function renderDocs(): Record<string, string> {
  return {
    'docs/config.md': renderConfig(),
    'docs/metrics.md': renderMetrics(),
    'docs/errors.md': renderErrors(),
    'docs/limiters.md': renderLimiters(),
    'docs/cli.md': renderCli(),
    'docs/api.md': renderApi(MADE, table),
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
  const settings = page(
    'Configuration',
    `Sluice is configured by environment variables. An empty value counts as not given. A wrong value, or a \`SLUICE_\` name that is not
in this table, stops the start with a message that lists all faults. Durations are seconds, or a number with \`s\`, \`m\`, \`h\` or \`d\`;
lists have commas. Values that hold secrets are never logged.

Variables that Kubernetes injects for a Service named "sluice" (\`SLUICE_SERVICE_HOST\`, \`SLUICE_PORT=tcp://…\` and their kin) are ignored.
${[...CLIENT_NAMES].map((name) => `\`${name}\``).join(' and ')} are read by the command line's client only.`,
    ['Setting', 'Default', 'Values', 'Meaning'],
    rows,
  );
  const variables = OTEL_VARIABLES.map(([name, value, meaning]) => [`\`${name}\``, value, meaning]);
  return `${settings}
## Tracing

Whether attempts are traced is said by the variables that OpenTelemetry has for every service; see [operations](operations.md#trace-it).

${table(['Variable', 'Default', 'Meaning'], variables)}
`;
}

function renderMetrics(): string {
  const rows = Object.entries<MetricRow>(METRICS).map(([name, row]) => {
    const labels = row.labels.map((label) => `\`${label}\``).join(', ');
    return [`\`sluice_${name}\``, row.kind, labels, row.help, row.question];
  });
  return page(
    'Metrics',
    `Served at \`/metrics\` in Prometheus' text format, for the whole process with all its threads; the usual \`process_…\` and
\`nodejs_…\` metrics of the process are there too. No metric has an id or a URL in its labels.

\`sluice_limiter_top_…\` name the account and the limiter, where \`SLUICE_METRICS_TOKEN\` is set, so that no account can read of another;
without it everything is under \`other\`. A limiter has series of its own while it is among the 50 that are used most, of late, in this
process: those begin when it comes among them and end when another takes its place, so ask for rates, not for totals.`,
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

function renderLimiters(): string {
  const kinds = Object.entries<LimiterKind>(LIMITER_KINDS);
  const choice = table(
    ['The case', '`type`'],
    kinds.map(([type, { use_for }]) => [use_for, `[\`${type}\`](#${type})`]),
  );
  const sections = kinds.map(([type, { meaning, forms }]) => {
    const parts = forms.map(({ schema }) => {
      const rows = Object.entries(schema.properties ?? {}).map(([field, { minimum, maximum, description }]) => [
        `\`${field}\``,
        `${minimum} to ${maximum?.toLocaleString('en')}${schema.required?.includes(field) ? '' : ', optional'}`,
        description ?? '',
      ]);
      return `${forms.length > 1 ? `${schema.description}\n\n` : ''}${table(['`config`', 'Range', 'Meaning'], rows)}`;
    });
    return `### ${type}\n\n${meaning}\n\n${parts.join('\n\n')}`;
  });
  return LIMITERS_TEXT.replace('{choice}', choice).replace('{kinds}', sections.join('\n\n'));
}

const MADE = '<!-- Made by scripts/gen-docs.ts from the tables in the source. Do not edit. -->';

const { queue_timeout, validity_timeout } = DEFAULT_TIMEOUTS;

const LIMITERS_TEXT = `${MADE}

# Rate limiters

A rate limiter decides when the tasks that name it may start. Make one, then name it in tasks:

\`\`\`http
POST /v1/rate-limiters   {"name": "billing-api", "type": "window", "config": {"limit": 100, "interval": 60}}
POST /v1/tasks           {"target": "https://billing.example/invoices", "rate_limiter": "billing-api"}
\`\`\`

Names are letters, digits and hyphens, unique in the account. All tasks of the account that name a limiter share it: single tasks, tasks
of any batch, templates. A task keeps the limiter that its name meant when the task was made.

## Which one

{choice}

\`interval\` is in seconds everywhere.

## The kinds

{kinds}

## What holds for all of them

- **Order.** Tasks start in the order in which they reached the limiter; those of one request keep theirs. Every attempt takes from the
  limiter, so a retry goes to the end of the line. The first in line is never overtaken, so a dear task of a \`points\` limiter waits
  until there are points for it, and all others behind it.
- **Exactness.** A limit is kept by Redis's clock at the moment a request is written, whatever the number of processes, and through their
  deaths: what was granted and not used is given back, and what was not written within a second waits again. The way to the receiver is
  not counted: allow 20 ms for it, or 1 % of the interval. For a start that is some ms
  longer on its way than another, a bucket that was not empty leaves free what comes back in 2 ms, at most a quarter of it: 2 of 10 at
  1,000 a second, none below 500; that does not count as available. \`concurrent\` counts on the engine's side; a target may still work on a request
  whose sender died.
- **Use.** What is allowed is used, but for the few milliseconds until a free unit is taken: of a \`window\` of a second about 99 %. A bucket
  that is full loses what comes in meanwhile, so a \`capacity\` of less than some 50 ms of its rate costs a part of that.
- **Waiting costs nothing.** A million waiting tasks are a few ranges in a queue, and nothing is polled.
- **\`timeouts.queue_timeout\`** (${queue_timeout} s unless set, at most ${TIMEOUT_S_MAX.toLocaleString('en')}): a task that has waited longer in the queue fails for good with the error
  \`queue_timeout\`, never having run. Time in which the limiter is paused or cooling down does not count.
- **\`timeouts.validity_timeout\`** (${validity_timeout.toLocaleString('en')} s unless set): a task that first became due longer ago, over all its attempts, fails with
  \`validity_timeout\`. A task's own \`valid_until\` replaces it; it then fails with \`expired\`.
- **\`cooldown\`.** With \`"limiter"\` a 429 or 503 with \`Retry-After\` closes the limiter until then for all its tasks, and the attempt is not
  counted. With \`"task"\`, as it is unless set, that one task waits.
- **Points.** \`points_cost\` is what a task is expected to cost, at most the \`capacity\` of its limiter. Where the target answers
  \`X-Points-Used: n\`, the difference is charged or given back; what is owed so is one more \`capacity\` at most. Other kinds ignore \`points_cost\`.

## Changing one

- **PATCH** takes \`description\`, \`config\`, \`timeouts\` and \`cooldown\`; name and type are for good. \`config\` is replaced whole, and tasks that
  wait go by the new one within a second. What runs is never recalled: after a limit was lowered, starts pause until there is room again.
  \`timeouts\` is replaced whole too; \`null\` is the defaults.
- **\`POST …/pause\`**, with \`{"until": "…"}\` or for good, lets nothing start; **\`…/resume\`** goes on. While it lasts the limiter shows \`paused\`, and
  \`paused_until\` where the pause has an end. **\`…/reset\`** forgets what was used; slots of running tasks stay taken.
- **DELETE**: tasks that wait run at once, without a limit. The name is free again, and a new limiter of that name never takes over old tasks.
  New tasks that name a limiter that is not there are refused with \`rate_limiter_not_found\` and their places in the request.
  A schedule whose template names a deleted one makes no more runs: its ticks are skipped (\`last_error\`) and a trigger is refused, until its
  template is changed.

## Seeing what one does

\`GET …/usage\` shows what waits (\`queued\`), what runs (\`running\`, for \`concurrent\`), the units that are free now (\`available\`) and when the next one
is (\`next_available_at\`), the last hour by the minute and 30 days by the day. \`throttled\` are tasks that could not start when they
came. It is readable for 30 days after a deletion.
`;

function page(title: string, intro: string, head: string[], rows: string[][]): string {
  return `${MADE}\n\n# ${title}\n\n${intro}\n\n${table(head, rows)}\n`;
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
