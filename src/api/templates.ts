// Templates of schedules, checked as deeply as the tasks and batches that they will become, and made ready to be stored.
import { ApiError, type Fault } from '../base/errors.ts';
import { DEFAULT_EXPIRATION_H } from '../base/limits.ts';
import { stringifyRaw } from '../schema/raw-json.ts';
import type { GivenTemplate } from '../schema/task-rules.ts';
import type { BatchTemplate, Notifications, Target, TaskTemplate } from '../schema/types.gen.ts';
import { encodeTasks } from '../store/encoded.ts';
import { labelHash } from '../store/keys.ts';
import type { NewTemplate } from '../store/schedules.ts';
import type { ApiContext } from './context.ts';
import { notAllowed, takeIn, targetFault } from './intake.ts';
import { notifyOf } from './prepare.ts';
import { type BatchDoc, masked, maskTarget } from './present.ts';
import { type LimitersByName, resolveLimiters } from './resolve.ts';

/** A template is shown whole wherever its schedule is, and copied for each run. */
const TEMPLATE_BYTES_MAX = 4 * 1_024 * 1_024;
const HOUR_MS = 3_600_000;

/** Throws an ApiError where a target may not be called or a limiter is not there. */
export async function newTemplate(context: ApiContext, account_id: string, given: GivenTemplate): Promise<NewTemplate | null> {
  const { task_template, batch_template } = given;
  const tasks = task_template === undefined ? (batch_template?.task_templates ?? []) : [task_template];
  const names = tasks.flatMap(({ rate_limiter }) => (rate_limiter === undefined ? [] : [rate_limiter]));
  const limiters = await resolveLimiters(context.client, account_id, names);
  const shown = shownTemplate(given)?.shown;
  if (shown === undefined) return null;
  if (task_template !== undefined) return taskTemplate(context, task_template, shown, limiters);
  return batch_template === undefined ? null : batchTemplate(context, batch_template, shown, limiters);
}

/** A template as it is shown; null where none was given. Asks nobody, so it says the same however long ago the template was taken. */
export function shownTemplate({ task_template, batch_template }: GivenTemplate): Pick<NewTemplate, 'kind' | 'shown'> | null {
  if (task_template !== undefined) return { kind: 'task', shown: Buffer.from(stringifyRaw(maskedTask(task_template))) };
  if (batch_template === undefined) return null;
  const { notifications, task_templates } = batch_template;
  const shown = {
    ...batch_template,
    ...(notifications === undefined ? {} : { notifications: masked(notifications) }),
    task_templates: task_templates.map(maskedTask),
  };
  return { kind: 'batch', shown: Buffer.from(stringifyRaw(shown)) };
}

function maskedTask(template: TaskTemplate): TaskTemplate {
  return { ...template, target: maskTarget(template.target) };
}

function taskTemplate(context: ApiContext, template: TaskTemplate, shown: Buffer, limiters: LimitersByName): NewTemplate {
  const [task] = take(context, [template], limiters, () => '/task_template').tasks;
  if (task === undefined) throw new Error('a template was taken in and is not there');
  return { kind: 'task', shown, task };
}

function batchTemplate(context: ApiContext, template: BatchTemplate, shown: Buffer, limiters: LimitersByName): NewTemplate {
  const { description, notifications = {}, task_templates, options, labels } = template;
  for (const [event, webhook] of Object.entries(notifications as Notifications)) {
    const fault = targetFault(webhook as Target, `/batch_template/notifications/${event}`, context.policy);
    if (fault !== null) throw notAllowed(fault);
  }
  const { tasks, task_keys } = take(context, task_templates, limiters, (i) => `/batch_template/task_templates/${i}`);
  if (shown.length > TEMPLATE_BYTES_MAX) {
    const fault = { path: '/batch_template', message: `must have at most ${TEMPLATE_BYTES_MAX} bytes` };
    throw new ApiError('validation_error', { errors: [fault] });
  }
  const { atomic = true, expiration, hold = false } = options ?? {};
  const doc: BatchDoc = {
    ...(description === undefined ? {} : { description }),
    notifications,
    options: { atomic, expiration: expiration ?? DEFAULT_EXPIRATION_H, hold },
    ...(labels === undefined ? {} : { labels }),
  };
  return {
    kind: 'batch',
    shown,
    doc: Buffer.from(JSON.stringify(doc)),
    tasks: encodeTasks(tasks),
    task_keys,
    expiration_ms: Math.round(doc.options.expiration * HOUR_MS),
    movable: expiration === undefined,
    hold,
    notify: notifyOf(notifications),
    labels: Object.entries(labels ?? {}).map(([name, value]) => labelHash(name, value)),
  };
}

/** The same that single tasks and those of a batch go through; faults are named by their place in the template. */
function take(
  context: ApiContext,
  templates: readonly TaskTemplate[],
  limiters: LimitersByName,
  pathOf: (index: number) => string,
): ReturnType<typeof takeIn> {
  const placed = (path: string): string => path.replace(/^\/tasks\/(\d+)/, (_, index: string) => pathOf(Number(index)));
  try {
    return takeIn(templates, {
      policy: context.policy,
      partial: false,
      rejected: [],
      known_keys: new Set(),
      limiters,
      at_ms: null,
      trace: null,
    });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const { path, errors } = error.details;
    if (typeof path === 'string') error.details['path'] = placed(path);
    if (Array.isArray(errors)) error.details['errors'] = (errors as Fault[]).map((fault) => ({ ...fault, path: placed(fault.path) }));
    throw error;
  }
}
