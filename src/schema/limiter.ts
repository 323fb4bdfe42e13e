// A rate limiter: creating it, changing it, and what is answered. What its configuration is like depends on its type.
import {
  COUNT,
  CURSOR_PAGE,
  closed,
  DESCRIPTION,
  type JsonSchema,
  LIMITER_NAME,
  NEXT_CURSOR,
  ref,
  type SchemaTable,
  TIMESTAMP,
} from './definition.ts';
import type { LimiterKind } from './limiters/kind.ts';
import { LIMITER_KINDS, LIMITER_TYPES, type LimiterType } from './limiters/kinds.ts';

/** What `timeouts` are where nothing is said about them. */
export const DEFAULT_TIMEOUTS = { queue_timeout: 300, validity_timeout: 3600 } as const;
export const COOLDOWNS = ['task', 'limiter'] as const;

export const TIMEOUT_S_MAX = 604_800;

const KINDS = Object.entries(LIMITER_KINDS) as [LimiterType, LimiterKind][];

const TYPE = {
  type: 'string',
  enum: LIMITER_TYPES,
  description: KINDS.map(([type, { meaning }]) => `${type}: ${meaning}`).join('\n'),
} as const satisfies JsonSchema;

const CONFIG = { type: 'object', description: 'Depends on the type.' } as const satisfies JsonSchema;

const COOLDOWN = {
  type: 'string',
  enum: COOLDOWNS,
  default: 'task',
  description:
    'With limiter, a 429 or 503 with Retry-After closes the limiter until then for all its tasks, and the attempt is not counted.',
} as const satisfies JsonSchema;

/** Said of a field that a change may not have. */
const FIXED = { not: {}, description: 'Cannot be changed.' } as const satisfies JsonSchema;

const TIMEOUT_FIELDS = {
  queue_timeout: {
    type: 'integer',
    minimum: 1,
    maximum: TIMEOUT_S_MAX,
    default: DEFAULT_TIMEOUTS.queue_timeout,
    description: 'Seconds that a task may wait in the queue; it then fails with the error queue_timeout, never having run.',
  },
  validity_timeout: {
    type: 'integer',
    minimum: 1,
    maximum: TIMEOUT_S_MAX,
    default: DEFAULT_TIMEOUTS.validity_timeout,
    description: 'Seconds after a task first became due, over all its attempts, at which it fails with the error validity_timeout.',
  },
} as const satisfies SchemaTable;

const SHOWN_FIELDS = {
  id: { type: 'string' },
  name: LIMITER_NAME,
  type: TYPE,
  config: CONFIG,
  created_at: TIMESTAMP,
} as const satisfies SchemaTable;

const TIMES = ['created_at', 'updated_at'] as const;

/** The name of the schema of a configuration in the form that its fields tell. */
export function configSchema(type: LimiterType, config: Readonly<Record<string, unknown>>): string {
  const { forms }: LimiterKind = LIMITER_KINDS[type];
  const told = forms.slice(1).find((one) => signs(one.schema, forms[0].schema).some((field) => Object.hasOwn(config, field)));
  return (told ?? forms[0]).name;
}

/** The fields by which a form is told from the one that is meant otherwise. */
function signs(one: JsonSchema, usual: JsonSchema): string[] {
  return Object.keys(one.properties ?? {}).filter((field) => !Object.hasOwn(usual.properties ?? {}, field));
}

/** Holds `config` against the form of its type. */
function withConfig(schema: JsonSchema): JsonSchema {
  const cases = KINDS.map(
    ([type, kind]) =>
      ({
        if: { type: 'object', properties: { type: { type: 'string', enum: [type] } }, required: ['type'] },
        // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
        then: { type: 'object', properties: { config: formOf(kind) } },
      }) as const satisfies JsonSchema,
  );
  return { ...schema, allOf: cases };
}

function formOf({ forms: [usual, ...others] }: LimiterKind): JsonSchema {
  return others.reduce<JsonSchema>((rest, one) => {
    const given = signs(one.schema, usual.schema).map((field) => ({ properties: { [field]: {} }, required: [field] }));
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    return { type: 'object', if: { type: 'object', anyOf: given }, then: ref(one.name), else: rest };
  }, ref(usual.name));
}

const FULL = closed(
  'A rate limiter.',
  {
    ...SHOWN_FIELDS,
    description: DESCRIPTION,
    timeouts: ref('LimiterTimeouts'),
    cooldown: { ...COOLDOWN, description: 'Shown where it is limiter.' },
    paused: { type: 'boolean', description: 'Shown, as true, while the limiter is paused.' },
    paused_until: { ...TIMESTAMP, description: 'When a pause that has an end will end.' },
    updated_at: TIMESTAMP,
  },
  ['id', 'name', 'type', 'config', 'timeouts', ...TIMES],
);

export const LIMITER_SCHEMAS = {
  ...(Object.fromEntries(KINDS.flatMap(([, { forms }]) => forms.map(({ name, schema }) => [name, schema]))) as SchemaTable),
  LimiterTimeouts: closed('How long tasks may wait, in seconds.', TIMEOUT_FIELDS, []),
  LimiterCreate: withConfig(
    closed(
      'A rate limiter to create.',
      {
        name: { ...LIMITER_NAME, description: 'Unique in the account. Tasks name the limiter by it.' },
        type: TYPE,
        config: CONFIG,
        description: DESCRIPTION,
        timeouts: ref('LimiterTimeouts'),
        cooldown: COOLDOWN,
      },
      ['name', 'type', 'config'],
    ),
  ),
  LimiterPatch: closed(
    'A change of a rate limiter.',
    {
      description: { ...DESCRIPTION, type: ['string', 'null'], description: 'null removes it.' },
      config: { type: 'object', description: 'Replaces the whole configuration; must fit the type of the limiter.' },
      timeouts: {
        ...closed('Replaces both; null is the defaults.', TIMEOUT_FIELDS, []),
        type: ['object', 'null'],
      },
      cooldown: COOLDOWN,
      name: FIXED,
      type: FIXED,
    },
    [],
  ),
  LimiterPause: closed(
    'How long to pause.',
    { until: { ...TIMESTAMP, description: 'When the limiter goes on by itself; without it, when it is resumed.' } },
    [],
  ),
  Limiter: withConfig(FULL),
  LimiterListItem: withConfig(closed('A rate limiter as listed.', SHOWN_FIELDS, ['id', 'name', 'type', 'config', 'created_at'])),
  LimiterList: closed(
    'A page of rate limiters, newest first.',
    { total: COUNT, rate_limiters: { type: 'array', items: ref('LimiterListItem') }, next_cursor: NEXT_CURSOR },
    ['total', 'rate_limiters'],
  ),
  LimiterDeleted: closed('A rate limiter that was deleted.', { deleted: { type: 'boolean' }, id: { type: 'string' } }, ['deleted', 'id']),
  LimiterMinute: closed(
    'What a limiter did in a minute.',
    { at: TIMESTAMP, granted: COUNT, queued_max: { ...COUNT, description: 'The most tasks that waited at a time.' } },
    ['at', 'granted', 'queued_max'],
  ),
  LimiterDay: closed(
    'What a limiter did in a day, UTC.',
    {
      date: { type: 'string', description: 'As in 2026-01-31.' },
      granted: COUNT,
      throttled: { ...COUNT, description: 'Tasks that could not start when they came to the limiter, and waited.' },
      expired: { ...COUNT, description: 'Tasks that waited too long and failed.' },
    },
    ['date', 'granted', 'throttled', 'expired'],
  ),
  LimiterUsage: closed(
    'How a limiter is used. Readable for 30 days after it was deleted.',
    {
      queued: { ...COUNT, description: 'Tasks that wait. One that was cancelled by itself counts until its turn comes.' },
      running: { ...COUNT, description: 'Slots that are taken; 0 for all types but concurrent.' },
      granted_last_minute: COUNT,
      throttled_last_minute: { ...COUNT, description: 'Tasks that could not start when they came, in the last minute.' },
      available: {
        type: ['integer', 'null'],
        minimum: 0,
        description: 'Units that could be taken at this moment; null where nothing limits, after a deletion.',
      },
      next_available_at: {
        type: ['string', 'null'],
        format: 'date-time',
        description: 'When the next unit is free; null where one is, or where no time is known.',
      },
      history: { type: 'array', items: ref('LimiterMinute'), description: 'By the minute, for the last hour.' },
      days: { type: 'array', items: ref('LimiterDay'), description: 'By the day, for 30 days.' },
    },
    ['queued', 'running', 'granted_last_minute', 'throttled_last_minute', 'available', 'next_available_at', 'history', 'days'],
  ),
} as const satisfies SchemaTable;

export const LIMITER_QUERIES = {
  LimiterListQuery: closed('', CURSOR_PAGE, []),
} as const satisfies SchemaTable;
