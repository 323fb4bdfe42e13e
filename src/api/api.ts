// All endpoints' functions, bound to what they work with.

import { ApiError } from '../base/errors.ts';
import { isUnavailable } from '../store/errors.ts';
import { addLines } from './add-lines.ts';
import * as batches from './batches.ts';
import type { Api, Call, QuotaVerdict } from './call.ts';
import type { ApiContext, ApiLimits } from './context.ts';
import * as limiters from './limiters.ts';
import * as notifications from './notifications.ts';
import { takeQuota } from './quota.ts';
import * as results from './results.ts';
import * as rounds from './rounds.ts';
import * as schedules from './schedules.ts';
import * as secrets from './secrets.ts';
import * as streams from './streams.ts';
import { listBatchTasks } from './task-list.ts';
import * as tasks from './tasks.ts';

/** A Redis that cannot be reached, or cannot take this now, is 503: the same request will be right later. */
export function makeApi(context: ApiContext): Api {
  const bind =
    <Out>(run: (context: ApiContext, call: Call) => Promise<Out>) =>
    (call: Call): Promise<Out> =>
      run(context, call).catch(told);
  return {
    createBatch: bind(batches.createBatch),
    listBatches: bind(batches.list),
    getBatch: bind(batches.getBatch),
    addTasks: bind((context, call) => (call.lines === null ? batches.addTasks(context, call) : addLines(context, call, call.lines))),
    cancelBatch: bind(batches.cancelBatch),
    releaseBatch: bind(batches.releaseBatch),
    retryBatch: bind(rounds.retryBatch),
    deleteBatch: bind(batches.deleteBatch),
    listNotifications: bind(notifications.listNotifications),
    redeliverNotification: bind(notifications.redeliverNotification),
    listBatchTasks: bind(listBatchTasks),
    getBatchResults: bind(results.getBatchResults),
    createStreamTicket: bind(streams.createStreamTicket),
    streamBatch: bind(streams.openStream),
    streamBatchEvents: bind(streams.openStream),
    createTask: bind(tasks.createTask),
    getTask: bind(tasks.getTask),
    cancelTask: bind(tasks.cancelTask),
    retryTask: bind(tasks.retryTask),
    createLimiter: bind(limiters.createLimiter),
    listLimiters: bind(limiters.listLimiters),
    getLimiter: bind(limiters.getLimiter),
    updateLimiter: bind(limiters.updateLimiter),
    deleteLimiter: bind(limiters.deleteLimiter),
    getLimiterUsage: bind(limiters.getLimiterUsage),
    pauseLimiter: bind(limiters.pauseLimiter),
    resumeLimiter: bind(limiters.resumeLimiter),
    resetLimiter: bind(limiters.resetLimiter),
    createSchedule: bind(schedules.createSchedule),
    listSchedules: bind(schedules.list),
    getSchedule: bind(schedules.getSchedule),
    patchSchedule: bind(schedules.patchSchedule),
    deleteSchedule: bind(schedules.deleteSchedule),
    listScheduleTasks: bind(schedules.listTasks),
    previewSchedule: bind(schedules.preview),
    previewCron: bind(schedules.previewCron),
    triggerSchedule: bind(schedules.trigger),
    getSigningSecret: bind(secrets.getSigningSecret),
    rotateSigningSecret: bind(secrets.rotateSigningSecret),
    precheck: {
      addTasks: bind(batches.batchExists),
      getBatch: bind(batches.batchReadable),
      listBatchTasks: bind(batches.batchReadable),
      getBatchResults: bind(batches.batchReadable),
      cancelBatch: bind(batches.batchExists),
      releaseBatch: bind(batches.batchExists),
      retryBatch: bind(batches.batchExists),
      deleteBatch: bind(batches.batchExists),
      listNotifications: bind(batches.batchExists),
      redeliverNotification: bind(notifications.notificationExists),
      createStreamTicket: bind(batches.batchExists),
      streamBatch: bind(streams.streamable),
      streamBatchEvents: bind(streams.streamable),
      getTask: bind(tasks.taskExists),
      cancelTask: bind(tasks.taskExists),
      retryTask: bind(tasks.taskExists),
      getLimiter: bind(limiters.limiterExists),
      updateLimiter: bind(limiters.limiterExists),
      deleteLimiter: bind(limiters.limiterExists),
      getLimiterUsage: bind(limiters.limiterExisted),
      pauseLimiter: bind(limiters.limiterExists),
      resumeLimiter: bind(limiters.limiterExists),
      resetLimiter: bind(limiters.limiterExists),
      patchSchedule: bind(schedules.scheduleExists),
      getSchedule: bind(schedules.scheduleExists),
      deleteSchedule: bind(schedules.scheduleExists),
      listScheduleTasks: bind(schedules.scheduleExists),
      previewSchedule: bind(schedules.scheduleExists),
      triggerSchedule: bind(schedules.scheduleExists),
    },
  };
}

/** The limits of the API, as the front door asks for them. */
export function makeQuota(context: ApiContext) {
  return (quota: keyof ApiLimits, call: Call): Promise<QuotaVerdict | null> | null => takeQuota(context, quota, call)?.catch(told) ?? null;
}

function told(cause: unknown): never {
  if (cause instanceof ApiError || !isUnavailable(cause)) throw cause;
  const error = new ApiError('unavailable', {}, { retry_after_s: 1 });
  error.cause = cause;
  throw error;
}
