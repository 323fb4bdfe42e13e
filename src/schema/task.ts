// A task as a caller supplies it, and as it is shown.
import { COUNT, CURSOR_PAGE, closed, type JsonSchema, LIMITER_NAME, NEXT_CURSOR, ref, type SchemaTable, TIMESTAMP } from './definition.ts';
import { PATTERN } from './formats.ts';

/** Statuses that a list can be filtered by. */
export const TASK_FILTERS = ['queued', 'processing', 'completed', 'failed'] as const;
export const TASK_STATUSES = [...TASK_FILTERS, 'cancelled'] as const;

const PAYLOAD = {
  description: 'Any JSON value. Stored and sent byte for byte as it came; at most 262,144 bytes.',
} as const satisfies JsonSchema;

/** What a task and every template of tasks take. */
export const TEMPLATE_FIELDS = {
  target: ref('Target'),
  payload: PAYLOAD,
  rate_limiter: LIMITER_NAME,
  points_cost: {
    type: 'integer',
    minimum: 1,
    maximum: 1_000_000,
    description: 'What the task takes from a limiter of type points (default 1). Ignored by the other types.',
  },
  timeout: { type: 'number', minimum: 1, maximum: 900, default: 30, description: 'Seconds that one attempt may take.' },
  retry: ref('RetryPolicy'),
  idempotency_key: {
    type: 'string',
    pattern: PATTERN.visible_ascii,
    maxLength: 255,
    description: 'A second task with the same key in its batch is skipped and counted as a duplicate.',
  },
} as const satisfies SchemaTable;

const SHOWN_FIELDS = {
  id: { type: 'string' },
  status: { type: 'string', enum: TASK_STATUSES },
  target: ref('Target'),
  payload: PAYLOAD,
  created_at: TIMESTAMP,
  completed_at: TIMESTAMP,
  scheduled_for: TIMESTAMP,
  rate_limiter: LIMITER_NAME,
  attempts: { ...COUNT, description: 'How many calls have been made.' },
  result: ref('TaskResult'),
} as const satisfies SchemaTable;

export const TASK_SCHEMAS = {
  RetryPolicy: closed(
    'How failed attempts are repeated. Every delay varies at random between its half and itself.',
    {
      max_retries: { type: 'integer', minimum: 0, maximum: 25, default: 3 },
      backoff: { type: 'string', enum: ['exponential', 'linear', 'fixed'], default: 'exponential' },
      delay: { type: 'number', minimum: 0, maximum: 86_400, default: 1, description: 'Seconds before the first retry.' },
      max_delay: { type: 'number', minimum: 0, maximum: 86_400, default: 3600, description: 'Seconds that no delay exceeds.' },
    },
    [],
  ),
  TaskInput: closed(
    'A task to create.',
    {
      ...TEMPLATE_FIELDS,
      execute_after: { ...TIMESTAMP, description: 'Not started before. A time in the past is now.' },
      valid_until: { ...TIMESTAMP, description: 'Not started after; the task then fails with the error expired.' },
    },
    ['target'],
  ),
  TaskResult: closed(
    'The last attempt of a task.',
    {
      status_code: { type: ['integer', 'null'], minimum: 100, maximum: 999, description: 'Null where no answer came.' },
      duration_ms: { type: 'number', minimum: 0 },
      error: ref('TaskError'),
      response_excerpt: { type: ['string', 'null'], description: 'The first 1,024 bytes of the answer, where it is text.' },
    },
    ['status_code', 'duration_ms', 'error'],
  ),
  TaskError: {
    ...closed('Why an attempt failed; null where it did not.', { code: { type: 'string' }, message: { type: 'string' } }, [
      'code',
      'message',
    ]),
    type: ['object', 'null'],
  },
  Task: closed('A task.', { ...SHOWN_FIELDS, batch_id: { type: ['string', 'null'], description: 'Null for a single task.' } }, [
    'id',
    'batch_id',
    'status',
    'target',
    'created_at',
    'attempts',
  ]),
  TaskListItem: closed('A task as listed under its batch.', { ...SHOWN_FIELDS, batch_id: { type: 'string' } }, [
    'id',
    'batch_id',
    'status',
    'target',
    'created_at',
    'attempts',
  ]),
  TaskOutcome: closed(
    'How a task ended.',
    {
      id: SHOWN_FIELDS.id,
      index: { ...COUNT, description: 'Its place in the batch, from 0.' },
      status: { type: 'string', enum: ['completed', 'failed', 'cancelled'] },
      attempts: SHOWN_FIELDS.attempts,
      created_at: TIMESTAMP,
      completed_at: { ...TIMESTAMP, description: 'When its last attempt ended; not there where it never ran.' },
      result: ref('TaskResult'),
    },
    ['id', 'index', 'status', 'attempts', 'created_at'],
  ),
  TaskList: closed(
    'A page of the tasks of a batch, in the order of their creation.',
    { total: COUNT, tasks: { type: 'array', items: ref('TaskListItem') }, next_cursor: NEXT_CURSOR },
    ['total', 'tasks'],
  ),
} as const satisfies SchemaTable;

export const TASK_QUERIES = {
  ResultsQuery: closed(
    '',
    {
      format: { type: 'string', enum: ['ndjson'], default: 'ndjson', description: 'One TaskOutcome a line.' },
      start_index: { type: 'integer', minimum: 0, maximum: 99_999_999, default: 0, description: 'Index of the task to begin with.' },
    },
    [],
  ),
  TaskListQuery: closed(
    '',
    { status: { type: 'string', enum: TASK_FILTERS, description: 'Only tasks of this status.' }, ...CURSOR_PAGE },
    [],
  ),
} as const satisfies SchemaTable;
