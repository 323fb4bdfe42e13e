// What the form of a schedule holds, as it is typed, and what is sent of it.
import type { BatchTemplate, Schedule, ScheduleCreate, SchedulePatch, TaskTemplate } from '../client/index.ts';
import type { Faults } from './form.tsx';
import { inputTime } from './format.ts';

/** A call in fields of its own, or a template as JSON. */
export type Kind = 'call' | 'task_template' | 'batch_template';

export interface ScheduleFields {
  cron: string;
  timezone: string;
  /** On this reader's clocks; '' is none. */
  start_at: string;
  end_at: string;
  kind: Kind;
  url: string;
  payload: string;
  task_template: string;
  batch_template: string;
}

type Templates = Pick<ScheduleCreate, 'task_template' | 'batch_template'>;
type Read<T> = { value: T } | { faults: Faults };

const EXAMPLE: TaskTemplate = { target: 'https://example.com/hook', payload: {} };

export const NEW_SCHEDULE: ScheduleFields = {
  cron: '0 9 * * MON-FRI',
  timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  start_at: '',
  end_at: '',
  kind: 'call',
  url: '',
  payload: '',
  task_template: '',
  batch_template: '',
};

export function fieldsOf({ cron, timezone, start_at, end_at, task_template, batch_template }: Schedule): ScheduleFields {
  return {
    ...NEW_SCHEDULE,
    cron,
    timezone,
    start_at: start_at === undefined ? '' : inputTime(start_at),
    end_at: end_at === undefined ? '' : inputTime(end_at),
    kind: batch_template === undefined ? 'task_template' : 'batch_template',
    task_template: task_template === undefined ? '' : pretty(task_template),
    batch_template: batch_template === undefined ? '' : pretty(batch_template),
  };
}

/** The same schedule said in another way: a template that has not been written yet begins as what was. */
export function withKind(fields: ScheduleFields, kind: Kind): ScheduleFields {
  if (kind === 'call' || fields[kind] !== '') return { ...fields, kind };
  const read = templatesOf(fields);
  const { task_template: task, batch_template: batch }: Templates = 'value' in read ? read.value : {};
  const first = task ?? batch?.task_templates?.[0] ?? EXAMPLE;
  const begun = first.target === '' ? { ...first, target: EXAMPLE.target } : first;
  return { ...fields, kind, [kind]: pretty(kind === 'task_template' ? begun : ({ task_templates: [begun] } satisfies BatchTemplate)) };
}

export function createOf(fields: ScheduleFields, enabled: boolean): Read<ScheduleCreate> {
  const read = templatesOf(fields);
  if ('faults' in read) return read;
  const { cron, timezone } = fields;
  const start_at = instantOf(fields.start_at);
  const end_at = instantOf(fields.end_at);
  const span = { ...(start_at === null ? {} : { start_at }), ...(end_at === null ? {} : { end_at }) };
  return { value: { cron, timezone, ...span, enabled, ...read.value } };
}

/** What differs from what the form began with; what was typed and taken back does not. */
export function patchOf(base: ScheduleFields, fields: ScheduleFields): Read<SchedulePatch> {
  const patch: SchedulePatch = {};
  if (fields.cron !== base.cron) patch.cron = fields.cron;
  if (fields.timezone !== base.timezone) patch.timezone = fields.timezone;
  // An input leaves out seconds that are 0.
  if (instantOf(fields.start_at) !== instantOf(base.start_at)) patch.start_at = instantOf(fields.start_at);
  if (instantOf(fields.end_at) !== instantOf(base.end_at)) patch.end_at = instantOf(fields.end_at);
  if (fields.kind === base.kind && textOf(fields) === textOf(base)) return { value: patch };
  const read = templatesOf(fields);
  if ('faults' in read) return read;
  const before = templatesOf(base, true);
  if ('value' in before && JSON.stringify(before.value) === JSON.stringify(read.value)) return { value: patch };
  return { value: { ...patch, ...read.value } };
}

function instantOf(typed: string): string | null {
  return typed === '' ? null : new Date(typed).toISOString();
}

function textOf(fields: ScheduleFields): string {
  return fields.kind === 'call' ? fields.url + fields.payload : fields[fields.kind];
}

/** `shown`: as the service shows it, not to be sent. */
function templatesOf(fields: ScheduleFields, shown = false): Read<Templates> {
  const { kind, url, payload } = fields;
  if (kind === 'call') {
    const read = payload.trim() === '' ? { value: undefined } : readJson(payload, 'task_template/payload');
    if ('faults' in read) return read;
    return { value: { task_template: { target: url, ...(read.value === undefined ? {} : { payload: read.value }) } } };
  }
  const read = readJson(fields[kind], kind);
  if ('faults' in read) return read;
  const masked = shown ? [] : maskedHeaders(read.value);
  if (masked.length > 0) {
    const names = [...new Set(masked)].join(', ');
    return { faults: { [kind]: `The values of headers are never shown. Write them in place of ***, or they are lost: ${names}.` } };
  }
  return { value: { [kind]: read.value } };
}

function readJson(text: string, field: string): Read<unknown> {
  let rounded: number | null = null;
  const look = (_: string, value: unknown): unknown => {
    if (typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value)) rounded = value;
    return value;
  };
  try {
    const value = JSON.parse(text, look) as unknown;
    if (rounded === null) return { value };
    return { faults: { [field]: `A browser cannot keep all digits of ${rounded}. Make it a string, or use the API.` } };
  } catch (error) {
    return { faults: { [field]: `This is no JSON: ${error instanceof Error ? error.message : ''}` } };
  }
}

/** The names of headers whose values are still as the service shows them, in a template that may be anything. */
function maskedHeaders(template: unknown): string[] {
  if (typeof template !== 'object' || template === null) return [];
  const { target, notifications, task_templates } = template as Partial<Record<string, unknown>>;
  const tasks = Array.isArray(task_templates) ? task_templates.flatMap(maskedHeaders) : [];
  const webhooks = typeof notifications === 'object' && notifications !== null ? Object.values(notifications) : [];
  return [...tasks, ...[target, ...webhooks].flatMap(maskedIn)];
}

function maskedIn(target: unknown): string[] {
  if (typeof target !== 'object' || target === null || !('headers' in target)) return [];
  return Object.entries(target.headers ?? {}).flatMap(([name, value]) => (value === '***' ? [name] : []));
}

function pretty(value: unknown): string {
  return JSON.stringify(value, null, 2);
}
