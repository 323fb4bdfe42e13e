// The setting table: every SLUICE_… variable, its type, default, unit, range and meaning. docs/config.md is made from it.
//
// A wrong value, or a SLUICE_ name that is not in the table, stops the start with all faults at once: a typo that is
// silently ignored is found out much later. Values of secret settings are never repeated in a message.
import { availableParallelism } from 'node:os';
import { LOG_LEVELS, type LogLevel } from './base/log-level.ts';
import {
  type AccountToken,
  bool,
  cidrs,
  duration,
  durations,
  integer,
  limit,
  list,
  oneOf,
  optional,
  parseTokens,
  type Setting,
  setting,
  text,
  visible,
} from './setting.ts';
import { parseRedisUrl } from './store/address.ts';
import type { DurabilityMode } from './store/durability.ts';
import { PARTITIONS_MAX } from './store/tags.ts';
import { type TracingSettings, tracingFrom } from './tracing/settings.ts';

const PREFIX = 'SLUICE_';

export type { AccountToken } from './setting.ts';
export type Role = 'api' | 'callbacks' | 'cron' | 'streams';
const ROLES: readonly Role[] = ['api', 'callbacks', 'cron', 'streams'];
const DURABILITIES: readonly DurabilityMode[] = ['local', 'replicated', 'strict'];

/** In the order of the docs. Field names of `Config` carry the unit of the value, which is not always that of the text. */
export const SETTINGS = {
  host: text({ env: 'HOST', default: '127.0.0.1', range: 'an address or host name', meaning: 'Address the API listens on.' }),
  port: integer({ env: 'PORT', default: '8080', min: 0, max: 65_535, meaning: 'Port the API listens on; 0 takes any free one.' }),
  ops_port: integer({
    env: 'OPS_PORT',
    default: null,
    default_text: 'none',
    min: 0,
    max: 65_535,
    meaning:
      'One more port, for `/healthz`, `/readyz` and `/metrics` alone; a process without the role api has no other. 0 takes any free one.',
  }),
  redis_url: optional({
    env: 'REDIS_URL',
    default: null,
    default_text: 'an embedded redis-server in the data directory',
    range: '`redis://`, `rediss://`, `unix://`, `redis+sentinel://h1:p1,h2:p2/master-name`, `redis+cluster://h1:p1,h2:p2`',
    meaning: 'Where Redis (7.0 or newer, or Valkey) is. `rediss+sentinel://` and `rediss+cluster://` are with TLS.',
    secret: true,
    parse: (value) => {
      parseRedisUrl(value);
      return value;
    },
  }),
  data_dir: text({
    env: 'DATA_DIR',
    default: './data',
    range: 'a path',
    meaning: 'Directory of the embedded Redis and of the first access token.',
  }),
  partitions: integer({
    env: 'PARTITIONS',
    default: '16',
    min: 1,
    max: PARTITIONS_MAX,
    meaning: 'Number of partitions, at the first start on an empty Redis; afterwards the stored number holds (`sluice partitions grow`).',
  }),
  callback_threads: integer({
    env: 'CALLBACK_THREADS',
    default: String(Math.max(1, availableParallelism() - 1)),
    default_text: 'cores − 1, at least 1',
    min: 1,
    max: 256,
    meaning: 'Threads that send callbacks, beside one for single tasks that come one at a time.',
  }),
  roles: setting<readonly Role[]>({
    env: 'ROLES',
    default: ROLES.join(','),
    range: ROLES.join(', '),
    meaning: 'What this process does; several processes may share one Redis.',
    parse: (value) => [...new Set(list(value).map((item) => oneOf(item, ROLES)))],
  }),
  access_tokens: setting<readonly AccountToken[]>({
    env: 'ACCESS_TOKENS',
    default: null,
    default_text: 'none',
    range: '`account=token,account2=token2`',
    meaning: 'Fixed tokens of scope `admin`, beside those made by `sluice token create`.',
    secret: true,
    parse: parseTokens,
    absent: [],
  }),
  allow_private_targets: bool({
    env: 'ALLOW_PRIVATE_TARGETS',
    default: 'false',
    meaning: 'Whether callbacks may go to private, loopback and link-local addresses.',
  }),
  egress_allow_cidrs: cidrs({
    env: 'EGRESS_ALLOW_CIDRS',
    meaning: 'Address ranges that callbacks may go to although the guard forbids them.',
  }),
  egress_deny_cidrs: cidrs({ env: 'EGRESS_DENY_CIDRS', meaning: 'Further address ranges that callbacks may not go to.' }),
  retention_ms: duration({
    env: 'RETENTION',
    default: '7d',
    min_s: 1,
    max_s: 3_650 * 86_400,
    meaning: 'How long finished batches are kept.',
  }),
  durability: setting<DurabilityMode | null>({
    env: 'DURABILITY',
    default: null,
    default_text: '`replicated` with Cluster or Sentinel, else `local`',
    range: DURABILITIES.join(', '),
    meaning:
      'When an accepted request is answered: once the master has it; once a replica has it too, unless none is attached; once a replica has it, else 503.',
    parse: (value) => oneOf(value, DURABILITIES),
    absent: null,
  }),
  metrics_token: optional({
    env: 'METRICS_TOKEN',
    default: null,
    default_text: 'none: `/metrics` is open',
    range: 'visible ASCII',
    meaning: 'Bearer token that `/metrics` asks for.',
    secret: true,
    parse: visible,
  }),
  drain_timeout_ms: duration({
    env: 'DRAIN_TIMEOUT',
    default: '25s',
    min_s: 0,
    max_s: 3_600,
    meaning: 'How long SIGTERM waits for running callbacks before it hands them back.',
  }),
  log_level: setting<LogLevel>({
    env: 'LOG_LEVEL',
    default: 'info',
    range: LOG_LEVELS.join(', '),
    meaning: 'The least severe lines that are logged.',
    parse: (value) => oneOf(value, LOG_LEVELS),
  }),
  limit_batch_create: limit({ env: 'LIMIT_BATCH_CREATE', default: '100', meaning: 'Batches an account may create, per minute.' }),
  limit_batch_add: limit({ env: 'LIMIT_BATCH_ADD', default: '60', meaning: 'Requests that add tasks to one batch, per minute.' }),
  limit_batch_status: limit({ env: 'LIMIT_BATCH_STATUS', default: '300', meaning: 'Reads of one batch and its tasks, per minute.' }),
  limit_streams: limit({ env: 'LIMIT_STREAMS', default: '10', meaning: 'Open streams of one batch, over all processes.' }),
  stream_threads: integer({
    env: 'STREAM_THREADS',
    default: '1',
    min: 1,
    max: 64,
    meaning: 'Threads that prepare the messages of progress streams.',
  }),
  max_body_bytes: integer({
    env: 'MAX_BODY_BYTES',
    default: String(16 * 1_024 * 1_024),
    unit: 'bytes',
    min: 1_024,
    max: 256 * 1_024 * 1_024,
    meaning: 'The largest request body.',
  }),
  schedule_lead_ms: duration({
    env: 'SCHEDULE_LEAD',
    default: '300s',
    min_s: 0,
    max_s: 86_400,
    meaning: 'How far ahead of its time a scheduled run is created, at most.',
  }),
  schedule_catch_up_ms: duration({
    env: 'SCHEDULE_CATCH_UP',
    default: '3600s',
    min_s: 0,
    max_s: 7 * 86_400,
    meaning: 'Runs missed while nothing ran are made up for when they are at most this old.',
  }),
  notification_retry_delays_ms: durations({
    env: 'NOTIFICATION_RETRY_DELAYS',
    default: '30,120,300,600,1800',
    items_max: 20,
    min_s: 0.01,
    max_s: 86_400,
    meaning: 'Waits between the tries of a notification; one try more than waits.',
  }),
  callbacks_per_thread: integer({
    env: 'CALLBACKS_PER_THREAD',
    default: '4096',
    min: 1,
    max: 16_384,
    meaning: 'Callbacks that one thread has in flight, at most.',
  }),
  connections_per_origin: integer({
    env: 'CONNECTIONS_PER_ORIGIN',
    default: '2048',
    min: 1,
    max: 16_384,
    meaning: 'Connections of one thread to one origin (scheme, host and port), at most.',
  }),
  holder_silence_ms: duration({
    env: 'HOLDER_SILENCE',
    default: '8s',
    min_s: 0.05,
    max_s: 600,
    meaning: 'After this silence a thread counts as dead, and what it had in flight is recovered. A timer for tests: leave it.',
  }),
  sweep_interval_ms: duration({
    env: 'SWEEP_INTERVAL',
    default: '5s',
    min_s: 0.02,
    max_s: 600,
    meaning: 'How often each partition is looked at without a hint. A timer for tests: leave it.',
  }),
  stream_place_ms: duration({
    env: 'STREAM_PLACE',
    default: '25s',
    min_s: 0.1,
    max_s: 600,
    meaning: 'How long the place of a progress stream is kept after its process has died. A timer for tests: leave it.',
  }),
  lease_grace_ms: duration({
    env: 'LEASE_GRACE',
    default: '5s',
    min_s: 0.02,
    max_s: 600,
    meaning: "Time beyond a callback's own deadline before its lease ends. A timer for tests: leave it.",
  }),
} as const satisfies Record<string, Setting<unknown>>;

type Parsed = { readonly [K in keyof typeof SETTINGS]: ReturnType<(typeof SETTINGS)[K]['parse']> };
type Optional = 'redis_url' | 'metrics_token';
/** Every setting with its value; names are those of the rows. */
export type Config = {
  readonly [K in keyof Parsed]: K extends Optional
    ? string | null
    : K extends 'ops_port'
      ? number | null
      : K extends 'durability'
        ? DurabilityMode
        : Parsed[K];
} & {
  /** By the variables that OpenTelemetry has for every service; null: nothing is traced. */
  readonly tracing: TracingSettings | null;
};

/** Read by the command line's client, not by the server. */
export const CLIENT_NAMES: ReadonlySet<string> = new Set(['SLUICE_URL', 'SLUICE_TOKEN']);
/** What Kubernetes and container links put into the environment for a service named "sluice"; SLUICE_PORT is one of them. */
const LINK_NAME = /^SLUICE_(SERVICE_(HOST|PORT)(_\w+)?|PORT_\d+_(TCP|UDP)(_\w+)?|NAME|ENV_\w+)$/;
const LINK_PORT = /^(tcp|udp):\/\//;

export interface ConfigFault {
  name: string;
  message: string;
}

/** All faults of the environment at once; the message is made for the operator. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly faults: readonly ConfigFault[];

  constructor(faults: readonly ConfigFault[]) {
    super(`The configuration is not valid:\n${faults.map(({ name, message }) => `  ${name} ${message}`).join('\n')}`);
    this.faults = faults;
  }
}

/** Throws ConfigError. An empty value counts as not given. */
export function loadConfig(env: Readonly<Record<string, string | undefined>>): Config {
  const faults: ConfigFault[] = unknownNames(env);
  const values: Record<string, unknown> = {};
  for (const [field, row] of Object.entries<Setting<unknown>>(SETTINGS)) {
    const name = PREFIX + row.env;
    const given = env[name]?.trim() ?? '';
    const linked = name === 'SLUICE_PORT' && LINK_PORT.test(given);
    const value = given === '' || linked ? row.default : given;
    if (value === null) {
      values[field] = row.absent ?? null;
      continue;
    }
    try {
      values[field] = row.parse(value);
    } catch (error) {
      const shown = row.secret ? '' : ` (it is "${value.slice(0, 100)}")`;
      faults.push({ name, message: `${error instanceof Error ? error.message : String(error)}${shown}` });
    }
  }
  values['tracing'] = tracingFrom(env, (name, message) => faults.push({ name, message }));
  if (faults.length > 0) throw new ConfigError(faults);
  values['durability'] ??= defaultDurability(values['redis_url']);
  // Each row's parse gives its field's type; the loop above cannot say so to the compiler.
  return values as Config;
}

function defaultDurability(redis_url: unknown): DurabilityMode {
  return typeof redis_url === 'string' && parseRedisUrl(redis_url).kind !== 'single' ? 'replicated' : 'local';
}

function unknownNames(env: Readonly<Record<string, string | undefined>>): ConfigFault[] {
  const known = Object.values<Setting<unknown>>(SETTINGS).map((row) => PREFIX + row.env);
  const faults: ConfigFault[] = [];
  for (const name of Object.keys(env)) {
    if (!name.startsWith(PREFIX) || known.includes(name) || CLIENT_NAMES.has(name) || LINK_NAME.test(name)) continue;
    const near = known.map((each) => ({ each, distance: editDistance(each, name) })).sort((a, b) => a.distance - b.distance)[0];
    const hint = near !== undefined && near.distance <= 3 ? `; did you mean ${near.each}?` : '';
    faults.push({ name, message: `is not a setting${hint}` });
  }
  return faults;
}

/** Levenshtein distance; names are short. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const swap = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min((row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1, swap));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
