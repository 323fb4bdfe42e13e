// Every schema of the wire contract, by name. A new resource is a file of its own and one line in each table it fills.
// Validators, TypeScript types and OpenAPI are made from here (scripts/gen-schema.ts, openapi.ts).
import { BATCH_QUERIES, BATCH_SCHEMAS } from './batch.ts';
import type { JsonSchema, SchemaTable } from './definition.ts';
import { ERROR_SCHEMAS } from './error.ts';
import { LIMITER_QUERIES, LIMITER_SCHEMAS } from './limiter.ts';
import { NOTIFICATION_QUERIES, NOTIFICATION_SCHEMAS } from './notifications.ts';
import { SCHEDULE_QUERIES, SCHEDULE_SCHEMAS } from './schedule.ts';
import { SIGNING_SECRET_SCHEMAS } from './signing-secret.ts';
import { STREAM_QUERIES, STREAM_SCHEMAS } from './stream.ts';
import { TARGET_SCHEMAS } from './target.ts';
import { TASK_QUERIES, TASK_SCHEMAS } from './task.ts';

/** Bodies of requests and answers, and their parts: `components.schemas` of the OpenAPI document. */
export const SCHEMAS: SchemaTable = {
  ...TARGET_SCHEMAS,
  ...TASK_SCHEMAS,
  ...NOTIFICATION_SCHEMAS,
  ...BATCH_SCHEMAS,
  ...LIMITER_SCHEMAS,
  ...SCHEDULE_SCHEMAS,
  ...SIGNING_SECRET_SCHEMAS,
  ...STREAM_SCHEMAS,
  ...ERROR_SCHEMAS,
};

/** Query strings, as objects of their decoded parameters. */
export const QUERIES: SchemaTable = {
  ...TASK_QUERIES,
  ...BATCH_QUERIES,
  ...LIMITER_QUERIES,
  ...NOTIFICATION_QUERIES,
  ...SCHEDULE_QUERIES,
  ...STREAM_QUERIES,
};

/** Schemas that requests are checked against; each gets a validator that stops at the first fault besides the one that finds all. */
export const BODIES = ['TaskInput', 'BatchCreateEnvelope', 'TasksAddEnvelope', 'ScheduleCreate', 'SchedulePatch'] as const;

/** A body without the schema of its tasks, so that one bad task does not stand in for the others. Validators only. */
export const ENVELOPES: SchemaTable = {
  BatchCreateEnvelope: withoutItems('BatchCreate'),
  TasksAddEnvelope: withoutItems('TasksAdd'),
};

function withoutItems(name: string): JsonSchema {
  const schema: JsonSchema = SCHEMAS[name] ?? {};
  const { items: _items, ...tasks } = schema.properties?.tasks ?? {};
  return { ...schema, properties: { ...schema.properties, tasks } };
}
