// What a task must keep beyond its schema, as far as it can be told without I/O: the URL, the headers, the times, the size.
// Runs for every task of every batch, so what can be known of a text is remembered by the text.
import type { Fault } from '../base/errors.ts';
import { isHostName } from '../base/host-name.ts';
import { check, type SchemaName } from './check.ts';
import { step } from './faults.ts';
import { timestampMs } from './formats.ts';
import { RawJson } from './json.ts';
import { NOTIFICATION_EVENTS } from './notifications.ts';
import { soundPart } from './sound.ts';
import type { BatchTemplate, Notifications, Target, TaskInput, TaskTemplate } from './types.gen.ts';

export const PAYLOAD_BYTES_MAX = 262_144;
/** Names and values of one target's headers together; receivers refuse more than 8 to 16 KiB. */
export const HEADERS_BYTES_MAX = 16_384;

/** Faults of a task that fits its schema. `path` is its JSON pointer, `now_ms` the time that `execute_after` and `valid_until` are held against. */
export function taskFaults(task: TaskInput, path: string, now_ms: number): Fault[] {
  const found = taskFault(task, now_ms);
  return found === NONE ? [] : found.map((fault) => ({ path: path + fault.path, message: fault.message }));
}

/** Schema and rules of a single task. */
export function checkTask(value: unknown, now_ms: number, path = ''): Fault[] {
  const faults = check('TaskInput', value, path);
  if (faults.length === 0) return taskFaults(value as TaskInput, path, now_ms);
  return [...faults, ...furtherFaults(faults, value, path, (task: TaskInput) => taskFaults(task, path, now_ms))];
}

/**
 * What the rules say of a value that does not fit its schema: of those parts of it that do. `rules` take what is not there for what may
 * be left out.
 */
export function furtherFaults<T>(
  faults: readonly Fault[],
  value: unknown,
  path: string,
  rules: (sound: T) => readonly Fault[],
): readonly Fault[] {
  const sound = soundPart(value, faults, path);
  return typeof sound === 'object' && sound !== null ? rules(sound as T) : NONE;
}

/** A template of a schedule as a caller gave it; exactly one of the two. */
export interface GivenTemplate {
  task_template?: TaskTemplate;
  batch_template?: BatchTemplate;
}

/** What is wrong with a template that fits its schema, as far as it can be told without its targets. */
export function templateFaults({ task_template, batch_template }: GivenTemplate, now_ms: number): Fault[] {
  if (task_template !== undefined && batch_template !== undefined) {
    return [{ path: '/batch_template', message: 'cannot be given together with task_template' }];
  }
  if (task_template !== undefined) return taskFaults(task_template, '/task_template', now_ms);
  if (batch_template === undefined) return [];
  const { notifications, task_templates = [] }: Partial<BatchTemplate> = batch_template;
  const faults = task_templates.flatMap((task: TaskTemplate | undefined, i) =>
    task === undefined ? [] : taskFaults(task, `/batch_template/task_templates/${i}`, now_ms),
  );
  if (notifications !== undefined) faults.push(...notificationFaults(notifications, '/batch_template/notifications'));
  return faults;
}

/** The faults of a body with those of its rules, [] where it fits its schema: whoever takes it then asks for the rules himself. */
export function bodyFaults(name: SchemaName, value: unknown, now_ms: number): Fault[] {
  const faults = check(name, value);
  if (faults.length === 0) return faults;
  if (name === 'TaskInput') faults.push(...furtherFaults(faults, value, '', (task: TaskInput) => taskFaults(task, '', now_ms)));
  if (name === 'ScheduleCreate' || name === 'SchedulePatch')
    faults.push(...furtherFaults(faults, value, '', (given: GivenTemplate) => templateFaults(given, now_ms)));
  return faults;
}

/** Nothing is wrong; one array for all, so that a task that is fine allocates nothing. */
export const NONE: readonly Fault[] = Object.freeze([]);

/** As `taskFaults`, with paths from the task on. `NONE` where there are none. Of one that does not fit its schema parts may be missing. */
export function taskFault(task: Partial<TaskInput>, now_ms: number): readonly Fault[] {
  let faults = task.target === undefined ? NONE : targetFaults(task.target, '/target');
  if (task.execute_after !== undefined || task.valid_until !== undefined) faults = join(faults, timeFaults(task, now_ms));
  if (task.payload instanceof RawJson && task.payload.length > PAYLOAD_BYTES_MAX) {
    faults = join(faults, [{ path: '/payload', message: `must have at most ${PAYLOAD_BYTES_MAX} bytes` }]);
  }
  return faults;
}

/** Faults of a webhook table that fits its schema. */
export function notificationFaults(notifications: Notifications, path: string): Fault[] {
  return NOTIFICATION_EVENTS.flatMap((event) => {
    const webhook = notifications[event];
    return webhook === undefined ? [] : targetFaults(webhook, `${path}/${event}`);
  });
}

type Sendable = string | Partial<Exclude<Target, string>>;

/** Faults of a target or webhook that fits its schema. */
export function targetFaults(target: Sendable, path: string): readonly Fault[] {
  if (typeof target === 'string') {
    const fault = urlFault(target);
    return fault === null ? NONE : [{ path, message: fault }];
  }
  const fault = target.url === undefined ? null : urlFault(target.url);
  const faults = fault === null ? NONE : [{ path: `${path}/url`, message: fault }];
  return target.headers === undefined ? faults : join(faults, headerFaults(target.headers, `${path}/headers`));
}

function join(one: readonly Fault[], other: readonly Fault[]): readonly Fault[] {
  if (other.length === 0) return one;
  return one.length === 0 ? other : [...one, ...other];
}

function timeFaults(task: Partial<TaskInput>, now_ms: number): readonly Fault[] {
  const after_ms = task.execute_after === undefined ? null : timestampMs(task.execute_after);
  const until_ms = task.valid_until === undefined ? null : timestampMs(task.valid_until);
  const faults: Fault[] = [];
  if (until_ms !== null && until_ms <= now_ms) faults.push({ path: '/valid_until', message: 'must be in the future' });
  else if (until_ms !== null && after_ms !== null && until_ms <= after_ms) {
    faults.push({ path: '/valid_until', message: 'must be later than execute_after' });
  }
  return faults.length === 0 ? NONE : faults;
}

/** Headers that Sluice sends itself, and those that belong to the connection. Lower case. */
const TAKEN_HEADERS = new Set([
  'connection',
  'content-length',
  'content-type',
  'expect',
  'host',
  'http2-settings',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'user-agent',
]);
const TAKEN_PREFIXES = ['proxy-', 'webhook-', 'x-sluice-'];

/** Whether a caller may not set this header. `name` in lower case. */
export function isTakenHeader(name: string): boolean {
  return TAKEN_HEADERS.has(name) || TAKEN_PREFIXES.some((prefix) => name.startsWith(prefix));
}

function headerFaults(headers: Record<string, string>, path: string): readonly Fault[] {
  let faults: Fault[] | null = null;
  let bytes = 0;
  const names = new Set<string>();
  for (const name in headers) {
    bytes += name.length + (headers[name] as string).length;
    const lower = name.toLowerCase();
    const fault = isTakenHeader(lower) ? 'is set by Sluice or HTTP itself and cannot be given' : names.has(lower) ? 'is given twice' : null;
    names.add(lower);
    if (fault !== null) {
      faults ??= [];
      faults.push({ path: path + step(name), message: fault });
    }
  }
  if (bytes > HEADERS_BYTES_MAX) {
    faults ??= [];
    faults.push({ path, message: `must have at most ${HEADERS_BYTES_MAX} bytes` });
  }
  return faults ?? NONE;
}

const FORBIDDEN_IN_URL = /[\s\\\p{Cc}]/u;

/**
 * What is wrong with a URL, or null. Its length is the schema's matter; whether its host may be called is outbound's.
 * Stricter than the URL parser, which drops tabs and takes a backslash for a slash: two readers of one URL must agree.
 */
export function urlFault(url: string): string | null {
  if (judged?.url !== url) judged = { url, fault: findUrlFault(url) };
  return judged.fault;
}

/** The last one: neighbours often have the same. */
let judged: { url: string; fault: string | null } | null = null;

function findUrlFault(url: string): string | null {
  if (FORBIDDEN_IN_URL.test(url)) return 'must not have spaces, control characters or backslashes';
  // Behind scheme and authority the URL parser refuses nothing, so the few of these decide for the many URLs.
  return originFault(url.slice(0, authorityEnd(url)));
}

/** Where the path, query or fragment of a URL begins. */
function authorityEnd(url: string): number {
  let at = url.indexOf('://');
  if (at < 0 || at > 5) return url.length;
  for (at += 3; at < url.length; at++) {
    const code = url.charCodeAt(at);
    if (code === 0x2f || code === 0x3f || code === 0x23) break;
  }
  return at;
}

/** Two generations of at most 5,000 answers: what is in use moves to the young one before the old one goes. */
const REMEMBERED_MAX = 5000;
let young = new Map<string, string | null>();
let old = new Map<string, string | null>();

function originFault(origin: string): string | null {
  const known = young.get(origin);
  if (known !== undefined) return known;
  const before = old.get(origin);
  const fault = before === undefined ? judgeOrigin(origin) : before;
  if (young.size >= REMEMBERED_MAX) {
    old = young;
    young = new Map();
  }
  young.set(origin, fault);
  return fault;
}

function judgeOrigin(origin: string): string | null {
  if (!/^https?:\/\//i.test(origin)) return 'must begin with http:// or https://';
  if (origin.includes('@')) return 'must not carry credentials';
  return URL.canParse(origin) && isHostName(new URL(origin).hostname.replace(/\.$/, '')) ? null : 'is not a valid URL';
}
