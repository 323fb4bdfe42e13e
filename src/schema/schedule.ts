// A schedule: creating and changing it, and what is answered.
import {
  COUNT,
  CURSOR_PAGE,
  closed,
  DESCRIPTION,
  type JsonSchema,
  NEXT_CURSOR,
  PAGE,
  ref,
  type SchemaTable,
  TIMESTAMP,
} from './definition.ts';
import { TASK_FILTERS, TASK_STATUSES, TEMPLATE_FIELDS } from './task.ts';

export const SCHEDULE_STATUSES = ['active', 'disabled'] as const;

/** The guideline for a batch. */
export const TEMPLATE_TASKS_MAX = 10_000;
export const PREVIEW_MAX = 100;

const NULLABLE_TIME = { type: ['string', 'null'], format: 'date-time' } as const satisfies JsonSchema;

const CRON = {
  type: 'string',
  maxLength: 256,
  description:
    'Five fields, or six with leading seconds: numbers, names, ranges, steps, lists, L (last day; 5L the last Friday), # (5#2 the second Friday), ? for a day field; or @hourly and its kin. Where day of month and day of week are both given, either is enough.',
} as const satisfies JsonSchema;

const TIMEZONE = { type: 'string', maxLength: 64, description: 'IANA name, such as Europe/Berlin.' } as const satisfies JsonSchema;
const ENABLED = { type: 'boolean', default: true } as const satisfies JsonSchema;
const START = 'Inclusive: no tick before it.';
const END = 'Inclusive: no tick after it.';

const TEMPLATES = { task_template: ref('TaskTemplate'), batch_template: ref('BatchTemplate') } as const satisfies SchemaTable;

const SHOWN_FIELDS = {
  id: { type: 'string' },
  status: { type: 'string', enum: SCHEDULE_STATUSES },
  cron: CRON,
  timezone: TIMEZONE,
  start_at: TIMESTAMP,
  end_at: TIMESTAMP,
  ...TEMPLATES,
  enabled: ENABLED,
  next_execution_at: { ...NULLABLE_TIME, description: 'The first tick after now; null while disabled, and where none is left.' },
  execution_count: { ...COUNT, description: 'Runs whose time has come.' },
  created_at: TIMESTAMP,
  updated_at: TIMESTAMP,
  last_error: ref('ScheduleError'),
} as const satisfies SchemaTable;

const SHOWN_REQUIRED = [
  'id',
  'status',
  'cron',
  'timezone',
  'enabled',
  'next_execution_at',
  'execution_count',
  'created_at',
  'updated_at',
] as const;

export const SCHEDULE_SCHEMAS = {
  TaskTemplate: closed('What is called at each tick: a task without its times.', TEMPLATE_FIELDS, ['target']),
  BatchTemplate: closed(
    'The batch that is made at each tick. Its life begins with its tick.',
    {
      description: DESCRIPTION,
      notifications: ref('Notifications'),
      task_templates: { type: 'array', minItems: 1, maxItems: TEMPLATE_TASKS_MAX, items: ref('TaskTemplate') },
      options: ref('BatchOptionsInput'),
      labels: ref('Labels'),
    },
    ['task_templates'],
  ),
  ScheduleCreate: {
    ...closed(
      'A schedule to create, with exactly one of task_template and batch_template.',
      {
        cron: CRON,
        timezone: TIMEZONE,
        start_at: { ...TIMESTAMP, description: START },
        end_at: { ...TIMESTAMP, description: END },
        ...TEMPLATES,
        enabled: ENABLED,
      },
      ['cron', 'timezone'],
    ),
    if: { type: 'object', properties: { batch_template: {} }, required: ['batch_template'] },
    else: { type: 'object', properties: { task_template: {} }, required: ['task_template'] },
  },
  SchedulePatch: closed(
    'What to change of a schedule. It affects what will be created; what was stays as it is.',
    {
      enabled: { type: 'boolean', description: 'Enabling moves the next tick to the first after now.' },
      cron: CRON,
      timezone: TIMEZONE,
      start_at: { ...NULLABLE_TIME, description: `${START} Null clears it.` },
      end_at: { ...NULLABLE_TIME, description: `${END} Null clears it.` },
      ...TEMPLATES,
    },
    [],
  ),
  SchedulePatched: closed(
    'The id, and the fields that were sent.',
    {
      id: SHOWN_FIELDS.id,
      enabled: { type: 'boolean' },
      cron: CRON,
      timezone: TIMEZONE,
      start_at: NULLABLE_TIME,
      end_at: NULLABLE_TIME,
      ...TEMPLATES,
    },
    ['id'],
  ),
  ScheduleError: closed('Why the last tick that could not make its run could not.', { code: { type: 'string' }, at: TIMESTAMP }, [
    'code',
    'at',
  ]),
  Schedule: closed(
    'A schedule.',
    { ...SHOWN_FIELDS, last_execution_at: { ...NULLABLE_TIME, description: 'The time of the latest run whose time has come.' } },
    [...SHOWN_REQUIRED, 'last_execution_at'],
  ),
  ScheduleListItem: closed('A schedule as listed.', SHOWN_FIELDS, SHOWN_REQUIRED),
  ScheduleList: closed(
    'A page of schedules, newest first.',
    { total: COUNT, schedules: { type: 'array', items: ref('ScheduleListItem') }, next_cursor: NEXT_CURSOR },
    ['total', 'schedules'],
  ),
  ScheduleDeleted: closed('A schedule that is gone.', { id: { type: 'string' }, status: { type: 'string', enum: ['deleted'] } }, [
    'id',
    'status',
  ]),
  ScheduledTask: closed(
    'A task that a schedule made.',
    {
      id: { type: 'string' },
      schedule_id: { type: 'string' },
      batch_id: { type: ['string', 'null'], description: 'The batch of the run, where the schedule makes batches.' },
      scheduled_for: TIMESTAMP,
      status: { type: 'string', enum: TASK_STATUSES },
      target: { type: 'string', description: 'The URL.' },
      payload: TEMPLATE_FIELDS.payload,
      created_at: TIMESTAMP,
      completed_at: TIMESTAMP,
      rate_limiter: TEMPLATE_FIELDS.rate_limiter,
      attempts: COUNT,
      result: ref('TaskResult'),
    },
    ['id', 'schedule_id', 'batch_id', 'scheduled_for', 'status', 'target', 'created_at', 'attempts'],
  ),
  ScheduledTaskList: closed(
    'A page of the tasks that a schedule made, the latest run first.',
    { total: COUNT, tasks: { type: 'array', items: ref('ScheduledTask') } },
    ['total', 'tasks'],
  ),
  ScheduleExecution: closed(
    'A tick to come.',
    { scheduled_for: TIMESTAMP, local_time: { ...TIMESTAMP, description: 'The same in the time zone of the schedule, with its offset.' } },
    ['scheduled_for', 'local_time'],
  ),
  SchedulePreview: closed(
    'The next ticks.',
    { schedule_id: { type: 'string' }, executions: { type: 'array', items: ref('ScheduleExecution') } },
    ['schedule_id', 'executions'],
  ),
  CronPreview: closed('When an expression fires.', { executions: { type: 'array', items: ref('ScheduleExecution') } }, ['executions']),
  ScheduleRun: closed(
    'A run that was made.',
    {
      schedule_id: { type: 'string' },
      scheduled_for: TIMESTAMP,
      task_id: { type: ['string', 'null'], description: 'The task, where the schedule makes tasks.' },
      batch_id: { type: ['string', 'null'], description: 'The batch, where it makes batches.' },
    },
    ['schedule_id', 'scheduled_for', 'task_id', 'batch_id'],
  ),
} as const satisfies SchemaTable;

const PREVIEW_QUERY = {
  limit: { type: 'integer', minimum: 1, maximum: PREVIEW_MAX, default: 10, description: 'How many ticks to show.' },
  start_from: { ...TIMESTAMP, description: 'Ticks strictly after this time; by default after now.' },
} as const satisfies SchemaTable;

export const SCHEDULE_QUERIES = {
  ScheduleListQuery: closed(
    '',
    {
      status: { type: 'string', enum: SCHEDULE_STATUSES, description: 'Only schedules of this status.' },
      enabled: { type: 'boolean', description: 'Only schedules that are enabled, or that are not.' },
      ...CURSOR_PAGE,
    },
    [],
  ),
  ScheduleTaskListQuery: closed(
    '',
    { status: { type: 'string', enum: TASK_FILTERS, description: 'Only tasks of this status.' }, ...PAGE },
    [],
  ),
  SchedulePreviewQuery: closed('', PREVIEW_QUERY, []),
  CronPreviewQuery: closed('', { cron: CRON, timezone: TIMEZONE, ...PREVIEW_QUERY }, ['cron', 'timezone']),
} as const satisfies SchemaTable;
