// The contract of the API, tried on a running engine. The same suite runs on a single Redis and on a Redis Cluster.
import { describe } from 'node:test';
import { accounts } from './contract/accounts.ts';
import { batches } from './contract/batches.ts';
import { conventions } from './contract/conventions.ts';
import { delivery } from './contract/delivery.ts';
import { labels } from './contract/labels.ts';
import { limitedSchedules } from './contract/limited-schedules.ts';
import { limitedTasks } from './contract/limited-tasks.ts';
import { limiters } from './contract/limiters.ts';
import { notificationLog } from './contract/notification-log.ts';
import { operations } from './contract/operations.ts';
import { refusals } from './contract/refusals.ts';
import { retries } from './contract/retries.ts';
import { rounds } from './contract/rounds.ts';
import { schedules } from './contract/schedules.ts';
import { states } from './contract/states.ts';
import { streams } from './contract/streams.ts';
import { tasks } from './contract/tasks.ts';
import type { Stage } from './stage.ts';

/** Most of what is waited for are retries, expiries and time-outs: many tests wait side by side. */
const CONCURRENCY = 8;

export function contract(stage: Stage): void {
  for (const part of [
    conventions,
    refusals,
    batches,
    labels,
    limiters,
    limitedTasks,
    states,
    rounds,
    tasks,
    schedules,
    limitedSchedules,
    delivery,
    retries,
    notificationLog,
    streams,
    accounts,
    operations,
  ]) {
    describe(part.name, { concurrency: CONCURRENCY }, () => part(stage));
  }
}
