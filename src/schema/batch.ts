// A batch: creating it, adding tasks, and what is answered.
import { COUNT, CURSOR_PAGE, closed, DESCRIPTION, type JsonSchema, NEXT_CURSOR, ref, type SchemaTable, TIMESTAMP } from './definition.ts';
import { PATTERN } from './formats.ts';

/** Statuses that the list can be filtered by. */
export const BATCH_FILTERS = ['pending', 'processing', 'completed', 'failed', 'expired'] as const;
export const BATCH_STATUSES = [...BATCH_FILTERS, 'cancelled'] as const;

/** What a check may find wrong with a batch. */
export const BATCH_REPAIRS = ['counters', 'end', 'places'] as const;
export type BatchRepair = (typeof BATCH_REPAIRS)[number];

const LABEL_VALUE = { type: 'string', minLength: 1, maxLength: 64, pattern: PATTERN.text } as const satisfies JsonSchema;

const TASKS = { type: 'array', minItems: 1, items: ref('TaskInput') } as const satisfies JsonSchema;

const OPTION_FIELDS = {
  atomic: { type: 'boolean', default: true, description: 'Either all tasks are created or none.' },
  expiration: {
    type: 'number',
    exclusiveMinimum: 0,
    maximum: 720,
    default: 24,
    description: 'Hours until the batch expires: from its creation; where not given, from the latest execute_after.',
  },
  hold: { type: 'boolean', default: false, description: 'The batch does not end, and takes tasks, until it is released.' },
} as const satisfies SchemaTable;

const SHOWN_FIELDS = {
  id: { type: 'string' },
  status: { type: 'string', enum: BATCH_STATUSES },
  description: DESCRIPTION,
  stats: ref('BatchStats'),
  labels: ref('Labels'),
  created_at: TIMESTAMP,
  updated_at: TIMESTAMP,
  completion_rate: { type: 'number', minimum: 0, maximum: 100, description: 'Completed of all tasks in percent, with two decimals.' },
} as const satisfies SchemaTable;

const CREATION_FIELDS = {
  errors: { type: 'array', items: ref('RejectedTask'), description: 'With atomic false: the tasks that were not created.' },
  duplicates: { ...COUNT, description: 'Tasks skipped for a repeated idempotency_key, where above 0.' },
} as const satisfies SchemaTable;

const FULL_FIELDS = { ...SHOWN_FIELDS, notifications: ref('Notifications'), options: ref('BatchOptions') } as const satisfies SchemaTable;
const FULL_REQUIRED = ['id', 'status', 'notifications', 'stats', 'options', 'created_at', 'updated_at', 'completion_rate'] as const;

export const BATCH_SCHEMAS = {
  Labels: {
    type: 'object',
    description: "A caller's own marks, to find batches by.",
    propertyNames: { type: 'string', pattern: PATTERN.label_key },
    additionalProperties: LABEL_VALUE,
    maxProperties: 16,
  },
  BatchOptionsInput: closed('How the batch behaves.', OPTION_FIELDS, []),
  BatchCreate: closed(
    'A batch to create, with its first tasks.',
    {
      tasks: TASKS,
      description: DESCRIPTION,
      notifications: ref('Notifications'),
      options: ref('BatchOptionsInput'),
      labels: ref('Labels'),
    },
    ['tasks'],
  ),
  TasksAdd: closed('Tasks to add to a batch.', { tasks: TASKS, atomic: OPTION_FIELDS.atomic }, ['tasks']),
  BatchStats: closed(
    'Tasks by state; total is the sum of the others.',
    { total: COUNT, pending: COUNT, completed: COUNT, failed: COUNT, cancelled: COUNT },
    ['total', 'pending', 'completed', 'failed', 'cancelled'],
  ),
  BatchOptions: closed('The options in effect.', OPTION_FIELDS, ['atomic', 'expiration', 'hold']),
  RejectedTask: closed(
    'One fault of a task that was not created.',
    { index: COUNT, message: { type: 'string' }, path: { type: 'string' } },
    ['index', 'message', 'path'],
  ),
  BatchVerified: closed(
    'What a check of the batch against its tasks found; the rest of the answer is as it is after that.',
    {
      consistent: {
        type: 'boolean',
        description: 'Whether it was as its tasks say. Absent where it changed all the time, so that it could not be counted.',
      },
      repaired: {
        type: 'array',
        items: { type: 'string', enum: BATCH_REPAIRS },
        description: 'What was set right: counters, an end that had been missed, places in lists and among what expires.',
      },
    },
    ['repaired'],
  ),
  Batch: closed('A batch.', { ...FULL_FIELDS, verified: ref('BatchVerified') }, FULL_REQUIRED),
  BatchCreated: closed('A batch as answered when it was created.', { ...FULL_FIELDS, ...CREATION_FIELDS }, FULL_REQUIRED),
  BatchListItem: closed('A batch as listed.', SHOWN_FIELDS, ['id', 'status', 'stats', 'created_at', 'updated_at', 'completion_rate']),
  BatchList: closed(
    'A page of batches, newest first.',
    { total: COUNT, batches: { type: 'array', items: ref('BatchListItem') }, next_cursor: NEXT_CURSOR },
    ['total', 'batches'],
  ),
  BatchChange: closed(
    'A batch after tasks were added, cancelled or retried.',
    {
      id: SHOWN_FIELDS.id,
      status: SHOWN_FIELDS.status,
      stats: SHOWN_FIELDS.stats,
      updated_at: TIMESTAMP,
      completion_rate: SHOWN_FIELDS.completion_rate,
      ...CREATION_FIELDS,
      errors_omitted: { ...COUNT, description: 'Of lines: faults beyond the 1,000 that errors lists, where above 0.' },
    },
    ['id', 'status', 'stats', 'updated_at', 'completion_rate'],
  ),
  Deleted: closed('What was deleted.', { deleted: { type: 'boolean', description: 'Always true.' }, id: { type: 'string' } }, [
    'deleted',
    'id',
  ]),
} as const satisfies SchemaTable;

export const BATCH_QUERIES = {
  BatchQuery: closed(
    '',
    {
      verify: {
        type: 'boolean',
        default: false,
        description: 'Count the tasks anew, and set the batch right where it is not as they say. In a healthy installation it always is.',
      },
    },
    [],
  ),
  BatchListQuery: {
    ...closed('', { status: { type: 'string', enum: BATCH_FILTERS, description: 'Only batches of this status.' }, ...CURSOR_PAGE }, []),
    patternProperties: { [PATTERN.label_parameter]: LABEL_VALUE },
  },
  TasksAddQuery: closed(
    '',
    {
      atomic: {
        type: 'boolean',
        description:
          'Of lines: false leaves out those that are not valid, and the answer lists them; otherwise the first one ends the request. A body of JSON says it itself.',
      },
    },
    [],
  ),
} as const satisfies SchemaTable;
