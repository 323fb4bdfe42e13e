// The whole API, one row per endpoint. Routing, checks, quotas, metrics and the OpenAPI document are read from here.
import type { Api, Handler, HandlerName } from '../api/call.ts';
import type { ErrorName } from '../base/errors.ts';
import type { QueryName, SchemaName } from '../schema/check.ts';
import type { Scope } from '../store/tokens.ts';
import { limiterRoutes } from './routes-limiters.ts';
import { scheduleRoutes } from './routes-schedules.ts';

export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';
/** Limits of the API itself; see Quota in endpoint.ts. */
export type QuotaName = 'batch_create' | 'batch_add' | 'batch_status';
/** What the path names; its id is checked before anything is asked of Redis. */
export type Resource = 'batch' | 'task' | 'limiter' | 'schedule';

export interface Row {
  name: HandlerName;
  summary: string;
  description?: string;
  tags: readonly string[];
  /** The least scope that may call it. */
  scope: Scope;
  query: QueryName | null;
  /** null: takes no body (an empty one or `{}` is let pass). */
  body: SchemaName | null;
  reply: SchemaName | null;
  status: 101 | 200 | 201;
  /** Besides those that follow from the rest of the row. */
  errors: readonly ErrorName[];
  quota: QuotaName | null;
  resource: Resource | null;
  /** The endpoint gets the bytes alone: bodies of many tasks are large, and with `atomic: false` a bad task is no bad request. */
  reads_body?: true;
  /** Its body may also be one task a line, of any length. */
  lines?: true;
  /** What it makes goes on with the trace of its request. */
  traced?: true;
  /** It answers with lines of JSON, each as `reply` says. */
  reply_lines?: true;
  /** A request without a body is one with `{}`. */
  body_optional?: true;
  /** It answers with a progress stream; a ticket in the query may stand for the token. */
  stream?: 'websocket' | 'events';
}

export interface Route extends Row {
  method: Method;
  /** Parameters in braces: `/v1/batches/{batch_id}`. */
  path: string;
  run: Handler;
}

/** Makes a row of the table. */
export type MakeRoute = (method: Method, path: string, row: Row) => Route;

const BATCHES = ['Batches'];
const NOTIFICATIONS = ['Notifications'];
const TASKS = ['Tasks'];
const ACCOUNT = ['Account'];

/** The one path that becomes a WebSocket. */
export const STREAM_PATH = '/v1/batches/{batch_id}/stream';

export function makeRoutes(api: Api): Route[] {
  const route: MakeRoute = (method, path, row) => ({ method, path, ...row, run: api[row.name] });
  return [
    route('POST', '/v1/batches', {
      name: 'createBatch',
      summary: 'Create a batch with its first tasks',
      description: 'Atomic by default: either all tasks are created or none.',
      tags: BATCHES,
      scope: 'write',
      query: null,
      body: 'BatchCreate',
      reply: 'BatchCreated',
      status: 201,
      errors: ['target_not_allowed', 'rate_limiter_not_found'],
      quota: 'batch_create',
      resource: null,
      reads_body: true,
      traced: true,
    }),
    route('GET', '/v1/batches', {
      name: 'listBatches',
      summary: 'List batches, newest first',
      tags: BATCHES,
      scope: 'read',
      query: 'BatchListQuery',
      body: null,
      reply: 'BatchList',
      status: 200,
      errors: [],
      quota: null,
      resource: null,
    }),
    route('GET', '/v1/batches/{batch_id}', {
      name: 'getBatch',
      summary: 'Retrieve a batch',
      tags: BATCHES,
      scope: 'read',
      query: 'BatchQuery',
      body: null,
      reply: 'Batch',
      status: 200,
      errors: ['batch_not_found'],
      quota: 'batch_status',
      resource: 'batch',
    }),
    route('POST', '/v1/batches/{batch_id}/tasks', {
      name: 'addTasks',
      summary: 'Add tasks to a batch',
      description:
        'Only while the batch is pending or processing. A body of type application/x-ndjson is one task a line, of any length: up to 1,000 lines at a time are added as they come, each such piece all or none, so hold the batch. At a line that is refused it stops; details.added says how many tasks were added before, and paths begin with the number of the line, from 0. With atomic=false such lines are left out instead, and listed in errors. With an Idempotency-Key a repeat adds what is missing.',
      tags: BATCHES,
      scope: 'write',
      query: 'TasksAddQuery',
      body: 'TasksAdd',
      reply: 'BatchChange',
      status: 200,
      errors: ['target_not_allowed', 'rate_limiter_not_found', 'batch_not_found', 'batch_completed', 'batch_state_invalid'],
      quota: 'batch_add',
      resource: 'batch',
      reads_body: true,
      lines: true,
      traced: true,
    }),
    route('GET', '/v1/batches/{batch_id}/tasks', {
      name: 'listBatchTasks',
      summary: 'List the tasks of a batch, in the order of their creation',
      tags: BATCHES,
      scope: 'read',
      query: 'TaskListQuery',
      body: null,
      reply: 'TaskList',
      status: 200,
      errors: ['batch_not_found'],
      quota: 'batch_status',
      resource: 'batch',
    }),
    route('GET', '/v1/batches/{batch_id}/results', {
      name: 'getBatchResults',
      summary: 'Download how the tasks of a batch ended',
      description:
        'One line for each task that has ended, in the order of their creation, also while the batch runs. An answer that does not end as it should (its connection is cut) is not whole: go on with start_index, the one after that of the last line.',
      tags: BATCHES,
      scope: 'read',
      query: 'ResultsQuery',
      body: null,
      reply: 'TaskOutcome',
      reply_lines: true,
      status: 200,
      errors: ['batch_not_found'],
      quota: 'batch_status',
      resource: 'batch',
    }),
    route('POST', '/v1/batches/{batch_id}/cancel', {
      name: 'cancelBatch',
      summary: 'Cancel the pending tasks of a batch',
      description: 'Tasks that are running or finished are not affected.',
      tags: BATCHES,
      scope: 'write',
      query: null,
      body: null,
      reply: 'BatchChange',
      status: 200,
      errors: ['batch_not_found', 'batch_state_invalid'],
      quota: null,
      resource: 'batch',
    }),
    route('POST', '/v1/batches/{batch_id}/release', {
      name: 'releaseBatch',
      summary: 'Let a held batch end',
      description: 'It ends when its tasks have. Releasing a batch that is not held changes nothing.',
      tags: BATCHES,
      scope: 'write',
      query: null,
      body: null,
      reply: 'Batch',
      status: 200,
      errors: ['batch_not_found'],
      quota: null,
      resource: 'batch',
    }),
    route('POST', '/v1/batches/{batch_id}/retry', {
      name: 'retryBatch',
      summary: 'Run the failed tasks of a batch again',
      description:
        'Begins a new round of a batch that is failed or expired and of which nothing runs any more: its failed tasks run again, their attempts counted from zero. A round has an expiry of its own, as long as the first one from now on, and sends its own on_death, on_finish, on_complete and on_success. A batch that is held stays held.',
      tags: BATCHES,
      scope: 'write',
      query: null,
      body: null,
      reply: 'BatchChange',
      status: 200,
      errors: ['batch_not_found', 'batch_state_invalid'],
      quota: null,
      resource: 'batch',
    }),
    route('DELETE', '/v1/batches/{batch_id}', {
      name: 'deleteBatch',
      summary: 'Delete a finished batch',
      description:
        'It and its tasks are gone at once, from lists too. Notifications that have not been delivered are dropped; how many is in the log of the service.',
      tags: BATCHES,
      scope: 'write',
      query: null,
      body: null,
      reply: 'Deleted',
      status: 200,
      errors: ['batch_not_found', 'batch_state_invalid'],
      quota: null,
      resource: 'batch',
    }),
    route('GET', '/v1/batches/{batch_id}/notifications', {
      name: 'listNotifications',
      summary: 'Show the delivery log of a batch, newest first',
      description:
        'Every notification that the batch has sent or is to send. Of delivered ones of on_progress only the newest 10,000 are kept for certain.',
      tags: NOTIFICATIONS,
      scope: 'read',
      query: 'NotificationListQuery',
      body: null,
      reply: 'NotificationLog',
      status: 200,
      errors: ['batch_not_found'],
      quota: null,
      resource: 'batch',
    }),
    route('POST', '/v1/batches/{batch_id}/notifications/{notification_id}/redeliver', {
      name: 'redeliverNotification',
      summary: 'Send a notification again',
      description:
        'One that was delivered or given up is sent again, its tries counted from zero, with the same webhook-id and body. One that is on its way already stays as it is.',
      tags: NOTIFICATIONS,
      scope: 'write',
      query: null,
      body: null,
      reply: 'NotificationDelivery',
      status: 200,
      errors: ['batch_not_found', 'notification_not_found'],
      quota: null,
      resource: 'batch',
    }),
    route('POST', '/v1/batches/{batch_id}/stream-tickets', {
      name: 'createStreamTicket',
      summary: 'Create a ticket for a progress stream',
      description: 'It opens one stream of this batch within 30 seconds, for clients that cannot send a header, such as browsers.',
      tags: BATCHES,
      scope: 'read',
      query: null,
      body: null,
      reply: 'StreamTicket',
      status: 201,
      errors: ['batch_not_found'],
      quota: null,
      resource: 'batch',
    }),
    route('GET', STREAM_PATH, {
      name: 'streamBatch',
      summary: 'Follow a batch over a WebSocket',
      description:
        'Messages are StreamSnapshot, then StreamProgress (and with tasks=true StreamTask), at last one StreamProgress of type finished; then it is closed with 1000. Other codes: 1001 the server stops, 1008 the client sent too much or its token was revoked, 1013 the client is more than 256 KiB behind.',
      tags: BATCHES,
      scope: 'read',
      query: 'StreamQuery',
      body: null,
      reply: null,
      status: 101,
      errors: ['batch_not_found', 'rate_limited'],
      quota: null,
      resource: 'batch',
      stream: 'websocket',
    }),
    route('GET', '/v1/batches/{batch_id}/events', {
      name: 'streamBatchEvents',
      summary: 'Follow a batch by Server-Sent Events',
      description: 'The data of each event is one message as of the WebSocket. A client closes at the one of type finished.',
      tags: BATCHES,
      scope: 'read',
      query: 'StreamQuery',
      body: null,
      reply: null,
      status: 200,
      errors: ['batch_not_found', 'rate_limited'],
      quota: null,
      resource: 'batch',
      stream: 'events',
    }),
    route('POST', '/v1/tasks', {
      name: 'createTask',
      summary: 'Create a single task',
      tags: TASKS,
      scope: 'write',
      query: null,
      body: 'TaskInput',
      reply: 'Task',
      status: 201,
      errors: ['target_not_allowed', 'rate_limiter_not_found'],
      quota: null,
      resource: null,
      traced: true,
    }),
    route('GET', '/v1/tasks/{task_id}', {
      name: 'getTask',
      summary: 'Retrieve a task',
      tags: TASKS,
      scope: 'read',
      query: null,
      body: null,
      reply: 'Task',
      status: 200,
      errors: ['task_not_found'],
      quota: null,
      resource: 'task',
    }),
    route('POST', '/v1/tasks/{task_id}/cancel', {
      name: 'cancelTask',
      summary: 'Cancel a task that is not running yet',
      tags: TASKS,
      scope: 'write',
      query: null,
      body: null,
      reply: 'Task',
      status: 200,
      errors: ['task_not_found', 'task_state_invalid'],
      quota: null,
      resource: 'task',
    }),
    route('POST', '/v1/tasks/{task_id}/retry', {
      name: 'retryTask',
      summary: 'Run a failed task again',
      description:
        'Its attempts are counted from zero again. In a batch that is failed or expired this begins a new round, as retrying the batch does, of this task alone.',
      tags: TASKS,
      scope: 'write',
      query: null,
      body: null,
      reply: 'Task',
      status: 200,
      errors: ['task_not_found', 'task_state_invalid'],
      quota: null,
      resource: 'task',
    }),
    ...limiterRoutes(route),
    ...scheduleRoutes(route),
    route('GET', '/v1/signing-secret', {
      name: 'getSigningSecret',
      summary: 'Show the secrets that sign callbacks and notifications',
      tags: ACCOUNT,
      scope: 'admin',
      query: null,
      body: null,
      reply: 'SigningSecrets',
      status: 200,
      errors: [],
      quota: null,
      resource: null,
    }),
    route('POST', '/v1/signing-secret/rotate', {
      name: 'rotateSigningSecret',
      summary: 'Make a new signing secret',
      description: 'The old one stays valid for 24 hours.',
      tags: ACCOUNT,
      scope: 'admin',
      query: null,
      body: null,
      reply: 'SigningSecrets',
      status: 200,
      errors: [],
      quota: null,
      resource: null,
    }),
  ];
}
