// Progress streams of a batch: tickets, and the frames that a stream sends.
import { BATCH_STATUSES } from './batch.ts';
import { COUNT, closed, ref, type SchemaTable, TIMESTAMP } from './definition.ts';
import { PATTERN } from './formats.ts';

const SEQ = { ...COUNT, description: 'One more than in the message before.' } as const;

export const STREAM_SCHEMAS = {
  StreamTicket: closed('Opens one stream of one batch, in the place of a token.', { ticket: { type: 'string' }, expires_at: TIMESTAMP }, [
    'ticket',
    'expires_at',
  ]),
  StreamSnapshot: closed(
    'The first message of a stream; later, with gap true, where messages were lost on the way.',
    { type: { type: 'string', enum: ['snapshot'] }, batch: ref('Batch'), gap: { type: 'boolean' }, seq: SEQ },
    ['type', 'batch', 'seq'],
  ),
  StreamProgress: closed(
    'How the batch stands: at most 20 a second, the newest always sent. The last message of a stream is of type finished.',
    {
      type: { type: 'string', enum: ['progress', 'finished'] },
      batch_id: { type: 'string' },
      status: { type: 'string', enum: BATCH_STATUSES },
      stats: ref('BatchStats'),
      completion_rate: { type: 'number', minimum: 0, maximum: 100 },
      timestamp: TIMESTAMP,
      seq: SEQ,
    },
    ['type', 'batch_id', 'status', 'stats', 'completion_rate', 'timestamp', 'seq'],
  ),
  StreamTask: closed(
    'With tasks=true: a task that ended, by itself or with its batch. Where more than 100,000 wait to be told, a snapshot with gap true is in their place.',
    { type: { type: 'string', enum: ['task'] }, task: ref('StreamTaskEnd'), seq: SEQ },
    ['type', 'task', 'seq'],
  ),
  StreamTaskEnd: closed(
    'A task as it ended.',
    {
      id: { type: 'string' },
      status: { type: 'string', enum: ['completed', 'failed', 'cancelled'] },
      completed_at: { ...TIMESTAMP, description: 'When it ended, however it did.' },
      attempts: COUNT,
      result: closed(
        'Its last attempt, as in the task, without the excerpt of the answer.',
        { status_code: { type: ['integer', 'null'] }, duration_ms: { type: 'number', minimum: 0 }, error: ref('TaskError') },
        ['status_code', 'duration_ms', 'error'],
      ),
    },
    ['id', 'status', 'completed_at', 'attempts'],
  ),
} as const satisfies SchemaTable;

export const STREAM_QUERIES = {
  StreamQuery: closed(
    '',
    {
      tasks: { type: 'boolean', default: false, description: 'Whether to tell of each task that ends.' },
      ticket: {
        type: 'string',
        pattern: PATTERN.visible_ascii,
        maxLength: 128,
        description: 'Stands for the token, where no Authorization is sent.',
      },
    },
    [],
  ),
} as const satisfies SchemaTable;
