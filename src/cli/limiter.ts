// `sluice limiter …`: rate limiters. Commands take its name or its id.
import type { Client, Limiter, LimiterCreate, LimiterUsage } from '../client/index.ts';
import { PAGE, pageOf, showPage } from './batch.ts';
import { type Command, EXIT, type ExitCode, Failure, type Given, UsageError } from './command.ts';
import { jsonObjectOption, readJsonFile } from './json-file.ts';
import { facts, number, show } from './output.ts';
import { clientOf } from './server.ts';

const LIMITER = ['LIMITER'];
const TYPES = ['concurrent', 'bucket', 'window', 'leaky', 'points'] as const;
const ID = /^rl_/;

export const LIMITER_COMMANDS: readonly Command[] = [
  {
    name: 'limiter create',
    words: [],
    summary: 'Create a rate limiter.',
    about: 'With `-f` the file is the body of `POST /v1/rate-limiters`. Without, `--name`, `--type` and `--config` are needed.',
    options: {
      file: { type: 'string', short: 'f', value: 'FILE', meaning: 'The limiter as JSON; `-` is standard input.' },
      name: { type: 'string', value: 'NAME', meaning: 'By which tasks name it.' },
      type: { type: 'string', choices: TYPES, meaning: 'What it limits.' },
      config: { type: 'string', value: 'JSON', meaning: 'By how much: `{"limit": 10, "interval": 1}`.' },
      description: { type: 'string', value: 'TEXT', meaning: 'For people.' },
    },
    needs: 'server',
    run: async (given) => shown(given, await clientOf(given).createLimiter(bodyOf(given))),
  },
  { name: 'limiter list', words: [], summary: 'List rate limiters.', options: PAGE, needs: 'server', run: limiterList },
  {
    name: 'limiter get',
    words: LIMITER,
    summary: 'Show a rate limiter.',
    options: {},
    needs: 'server',
    run: (given) => change(given, (client, id) => client.getLimiter(id)),
  },
  { name: 'limiter usage', words: LIMITER, summary: 'Show how much of it is used.', options: {}, needs: 'server', run: limiterUsage },
  {
    name: 'limiter pause',
    words: LIMITER,
    summary: 'Let nothing through, until it is resumed or a time has come.',
    options: { until: { type: 'string', value: 'TIME', meaning: 'Such as `2026-12-01T00:00:00Z`.' } },
    needs: 'server',
    run: (given) => {
      const until = given.text('until');
      return change(given, (client, id) => client.pauseLimiter(id, until === null ? {} : { until }));
    },
  },
  {
    name: 'limiter resume',
    words: LIMITER,
    summary: 'Let it go on.',
    options: {},
    needs: 'server',
    run: (given) => change(given, (client, id) => client.resumeLimiter(id)),
  },
  {
    name: 'limiter reset',
    words: LIMITER,
    summary: 'Forget what was used. Running tasks keep their slots.',
    options: {},
    needs: 'server',
    run: (given) => change(given, (client, id) => client.resetLimiter(id)),
  },
  {
    name: 'limiter delete',
    words: LIMITER,
    summary: 'Delete it. Tasks that wait for it run at once.',
    options: {},
    needs: 'server',
    run: async (given) => {
      const client = clientOf(given);
      const deleted = await client.deleteLimiter(await idOf(client, given.word(0)));
      show(given.json, deleted, () => `${given.word(0)} is gone.`);
      return EXIT.done;
    },
  },
];

function bodyOf(given: Given): LimiterCreate {
  const file = given.text('file');
  if (file !== null) {
    const rest = ['name', 'type', 'config', 'description'].find((name) => given.text(name) !== null);
    if (rest !== undefined) throw new UsageError(`With --file, --${rest} belongs into the file.`);
    // The service checks it, and says what is wrong with it.
    return readJsonFile(file) as unknown as LimiterCreate;
  }
  const name = given.must('name');
  const type = given.must('type') as LimiterCreate['type'];
  const description = given.text('description');
  const config = jsonObjectOption('config', given.must('config'));
  return { name, type, config, ...(description === null ? {} : { description }) };
}

/** A name is looked up in the list of all. */
async function idOf(client: Client, limiter: string): Promise<string> {
  if (ID.test(limiter)) return limiter;
  for await (const { id, name } of client.allLimiters()) if (name === limiter) return id;
  throw new Failure(`No rate limiter has the name ${limiter}.`, { code: 'rate_limiter_not_found' });
}

async function change(given: Given, ask: (client: Client, id: string) => Promise<Limiter>): Promise<ExitCode> {
  const client = clientOf(given);
  return shown(given, await ask(client, await idOf(client, given.word(0))));
}

async function limiterList(given: Given): Promise<ExitCode> {
  const list = await clientOf(given).listLimiters(pageOf(given));
  const rows = list.rate_limiters.map(({ id, name, type, config }) => [id, name, type, JSON.stringify(config)]);
  showPage(given, list, () => [['ID', 'NAME', 'TYPE', 'CONFIG'], ...rows]);
  return EXIT.done;
}

async function limiterUsage(given: Given): Promise<ExitCode> {
  const client = clientOf(given);
  const usage = await client.getLimiterUsage(await idOf(client, given.word(0)));
  show(given.json, usage, () => usageText(usage));
  return EXIT.done;
}

function usageText(usage: LimiterUsage): string {
  return facts([
    ['waiting', number(usage.queued)],
    ['running', number(usage.running)],
    ['started in the last minute', number(usage.granted_last_minute)],
    ['held back in the last minute', number(usage.throttled_last_minute)],
    ['free now', usage.available === null ? null : number(usage.available)],
    ['next free at', usage.next_available_at],
  ]);
}

function shown(given: Given, limiter: Limiter): ExitCode {
  const paused =
    limiter.paused !== true ? null : limiter.paused_until === undefined ? 'until it is resumed' : `until ${limiter.paused_until}`;
  show(given.json, limiter, () =>
    facts([
      ['id', limiter.id],
      ['name', limiter.name],
      ['type', limiter.type],
      ['config', JSON.stringify(limiter.config)],
      ['description', limiter.description],
      ['paused', paused],
    ]),
  );
  return EXIT.done;
}
