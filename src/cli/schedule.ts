// `sluice schedule …`: tasks and batches that are made again and again.
import type { Schedule, ScheduleCreate, ScheduleListItem } from '../client/index.ts';
import { PAGE, pageOf, showPage } from './batch.ts';
import { type Command, EXIT, type ExitCode, type Given, UsageError } from './command.ts';
import { jsonOption, readJsonFile } from './json-file.ts';
import { facts, number, show, table } from './output.ts';
import { clientOf } from './server.ts';

const ID = ['SCHEDULE_ID'];

export const SCHEDULE_COMMANDS: readonly Command[] = [
  {
    name: 'schedule create',
    words: [],
    summary: 'Create a schedule: a call at each tick of a cron expression, or whatever a file says.',
    about:
      'With `-f` the file is the body of `POST /v1/schedules`, and takes all that the API takes, such as a batch at each tick. Without, `--cron`, `--timezone` and `--target` are needed.',
    options: {
      file: { type: 'string', short: 'f', value: 'FILE', meaning: 'The schedule as JSON; `-` is standard input.' },
      cron: { type: 'string', value: 'EXPRESSION', meaning: 'Five fields, or six with leading seconds.' },
      timezone: { type: 'string', value: 'ZONE', meaning: 'IANA name, such as `Europe/Berlin`.' },
      target: { type: 'string', value: 'URL', meaning: 'What is called.' },
      method: { type: 'string', value: 'METHOD', meaning: 'How; `POST` where not given.' },
      payload: { type: 'string', value: 'JSON', meaning: 'What is sent.' },
      limiter: { type: 'string', value: 'NAME', meaning: 'The rate limiter that the task goes through.' },
      disabled: { type: 'boolean', meaning: 'Not yet.' },
    },
    needs: 'server',
    run: async (given) => shown(given, await clientOf(given).createSchedule(bodyOf(given))),
  },
  {
    name: 'schedule list',
    words: [],
    summary: 'List schedules, newest first.',
    options: { status: { type: 'string', choices: ['active', 'disabled'], meaning: 'Only schedules of this status.' }, ...PAGE },
    needs: 'server',
    run: scheduleList,
  },
  {
    name: 'schedule get',
    words: ID,
    summary: 'Show a schedule.',
    options: {},
    needs: 'server',
    run: async (given) => shown(given, await clientOf(given).getSchedule(given.word(0))),
  },
  {
    name: 'schedule preview',
    words: ID,
    summary: 'Show its next ticks.',
    options: {
      limit: { type: 'string', value: 'N', meaning: 'How many.' },
      from: { type: 'string', value: 'TIME', meaning: 'Ticks after this time, such as `2026-12-01T00:00:00Z`; else after now.' },
    },
    needs: 'server',
    run: schedulePreview,
  },
  {
    name: 'schedule trigger',
    words: ID,
    summary: 'Make one run now, whatever its ticks do.',
    options: {},
    needs: 'server',
    run: async (given) => {
      const run = await clientOf(given).triggerSchedule(given.word(0));
      show(given.json, run, () => run.batch_id ?? run.task_id ?? '');
      return EXIT.done;
    },
  },
  {
    name: 'schedule enable',
    words: ID,
    summary: 'Let it tick again, from now on.',
    options: {},
    needs: 'server',
    run: (given) => enable(given, true),
  },
  {
    name: 'schedule disable',
    words: ID,
    summary: 'Let it tick no more.',
    options: {},
    needs: 'server',
    run: (given) => enable(given, false),
  },
  {
    name: 'schedule delete',
    words: ID,
    summary: 'Delete it. What it made is not affected.',
    options: {},
    needs: 'server',
    run: async (given) => {
      const deleted = await clientOf(given).deleteSchedule(given.word(0));
      show(given.json, deleted, () => `${deleted.id} is gone.`);
      return EXIT.done;
    },
  },
];

function bodyOf(given: Given): ScheduleCreate {
  const file = given.text('file');
  const rest = ['cron', 'timezone', 'target', 'method', 'payload', 'limiter'].filter((name) => given.text(name) !== null);
  if (file !== null) {
    if (rest.length > 0 || given.flag('disabled')) throw new UsageError(`With --file, --${rest[0] ?? 'disabled'} belongs into the file.`);
    // The service checks it, and says what is wrong with it.
    return readJsonFile(file) as unknown as ScheduleCreate;
  }
  const payload = given.text('payload');
  const limiter = given.text('limiter');
  const method = given.text('method');
  const url = given.must('target');
  return {
    cron: given.must('cron'),
    timezone: given.must('timezone'),
    task_template: {
      target: method === null ? url : ({ url, method } as Exclude<Schedule['task_template'], undefined>['target']),
      ...(payload === null ? {} : { payload: jsonOption('payload', payload) }),
      ...(limiter === null ? {} : { rate_limiter: limiter }),
    },
    ...(given.flag('disabled') ? { enabled: false } : {}),
  };
}

async function scheduleList(given: Given): Promise<ExitCode> {
  const status = given.text('status') as Schedule['status'] | null;
  const list = await clientOf(given).listSchedules({ ...pageOf(given), ...(status === null ? {} : { status }) });
  const head = ['ID', 'STATUS', 'CRON', 'TIMEZONE', 'NEXT', 'RUNS', 'CALLS'];
  showPage(given, list, () => [head, ...list.schedules.map(row)]);
  return EXIT.done;
}

function row(schedule: ScheduleListItem): string[] {
  const { id, status, cron, timezone, next_execution_at, execution_count } = schedule;
  return [id, status, cron, timezone, next_execution_at ?? 'never', number(execution_count), callsOf(schedule)];
}

function callsOf({ task_template, batch_template }: ScheduleListItem): string {
  if (task_template === undefined) return `a batch of ${batch_template?.task_templates.length ?? 0}`;
  return typeof task_template.target === 'string' ? task_template.target : task_template.target.url;
}

async function schedulePreview(given: Given): Promise<ExitCode> {
  const limit = given.number('limit', { min: 1, max: 5_000, whole: true });
  const start_from = given.text('from');
  const query = { ...(limit === null ? {} : { limit }), ...(start_from === null ? {} : { start_from }) };
  const preview = await clientOf(given).previewSchedule(given.word(0), query);
  const rows = preview.executions.map(({ scheduled_for, local_time }) => [scheduled_for, local_time]);
  show(given.json, preview, () => table([['AT', 'LOCAL TIME'], ...rows]));
  return EXIT.done;
}

async function enable(given: Given, enabled: boolean): Promise<ExitCode> {
  const patched = await clientOf(given).patchSchedule(given.word(0), { enabled });
  show(given.json, patched, () => `${patched.id} is ${enabled ? 'enabled' : 'disabled'}.`);
  return EXIT.done;
}

function shown(given: Given, schedule: Schedule): ExitCode {
  show(given.json, schedule, () =>
    facts([
      ['id', schedule.id],
      ['status', schedule.status],
      ['cron', `${schedule.cron} (${schedule.timezone})`],
      ['calls', callsOf(schedule)],
      ['next', schedule.next_execution_at ?? 'never'],
      ['latest', schedule.last_execution_at ?? 'none yet'],
      ['runs', number(schedule.execution_count)],
      ['last error', schedule.last_error === undefined ? null : `${schedule.last_error.code} at ${schedule.last_error.at}`],
    ]),
  );
  return EXIT.done;
}
