// What an operator should be woken for, or told at the next coffee: one row an alert, with what to do about it. The rules of
// Prometheus (deploy/prometheus) and the runbook (docs/runbook.md) come from it.

export interface AlertRow {
  /** PromQL; metrics by their full names, which a test holds against the metric table. */
  expr: string;
  /** How long it must hold, as Prometheus writes durations. */
  holds: string;
  /** `page`: work stands or is about to be lost. `ticket`: it can wait for the morning. */
  severity: 'page' | 'ticket';
  /** One sentence, as it is sent. */
  summary: string;
  /** What it means, what to look at, how to mend it. */
  runbook: readonly string[];
}

export const ALERTS = {
  SluiceRedisDown: {
    expr: 'min(sluice_redis_up) == 0',
    holds: '30s',
    severity: 'page',
    summary: 'A Sluice process cannot reach Redis.',
    runbook: [
      'The API answers 503, nothing is sent. Accepted work is safe in Redis and goes on by itself when it is back.',
      'One process alone: look at its network. All of them: look at Redis (`redis-cli ping`, its log, its disk, `sluice_redis_memory_bytes`).',
      'On a Cluster a master without a replica stays away until it is started again; with one, a failover takes a few seconds.',
    ],
  },
  SluiceWorkStuck: {
    expr: 'max(sluice_oldest_waiting_seconds) > 120',
    holds: '5m',
    severity: 'page',
    summary: 'Work that is due has not been sent for minutes.',
    runbook: [
      'Compare `sluice_callbacks_in_flight` with CALLBACK_THREADS × CALLBACKS_PER_THREAD: at the limit, targets are slow; add threads or processes.',
      'Far below it: `sluice_origins_broken` above 0 means that the waiting work belongs to hosts that are down. It waits on purpose.',
      'Neither: look for `a turn failed` in the logs, `sluice_threads` below its usual value, and whether any process has the role callbacks.',
    ],
  },
  SluiceLagHigh: {
    expr: 'histogram_quantile(0.99, sum by (le) (rate(sluice_delivery_lag_seconds_bucket[5m]))) > 5',
    holds: '10m',
    severity: 'ticket',
    summary: 'One in a hundred callbacks starts more than 5 s late.',
    runbook: [
      'Waiting for a rate limiter counts, so first see whether the late work is limited (`sluice_queue_depth{class="limited"}`).',
      'Else capacity: `sluice_callbacks_in_flight` at its limit, or `sluice_event_loop_lag_seconds` high: more threads, more processes.',
      'Else Redis: `sluice_redis_command_seconds` says whether it, or the way to it, is slow.',
    ],
  },
  SluiceTargetsFail: {
    expr: 'sum(rate(sluice_callbacks_total{outcome=~"retry|failed"}[10m])) / sum(rate(sluice_callbacks_total[10m])) > 0.5',
    holds: '15m',
    severity: 'ticket',
    summary: 'More than half of all callbacks fail.',
    runbook: [
      'The dashboard lists the targets that fail and why. One host: tell its owner. All hosts: look at this side’s DNS and egress.',
      'A deny rule that is new (SLUICE_EGRESS_DENY_CIDRS) shows as `target_not_allowed`.',
    ],
  },
  SluiceTargetBroken: {
    expr: 'max(sluice_origins_broken) > 0',
    holds: '15m',
    severity: 'ticket',
    summary: 'A target host cannot be reached.',
    runbook: [
      'Its tasks wait and burn no attempts; one probe goes out every 5 s, and all goes on when it answers. Batches that expire meanwhile fail.',
    ],
  },
  SluiceNotificationsFail: {
    expr: 'sum(rate(sluice_notifications_total{outcome="failed"}[30m])) > 0',
    holds: '5m',
    severity: 'ticket',
    summary: 'Notifications were given up after their last try.',
    runbook: [
      'A batch’s delivery log says which and why: `GET /v1/batches/{id}/notifications`, or the batch in the dashboard.',
      'When the receiver is well again: `POST /v1/batches/{id}/notifications/{notification_id}/redeliver`.',
    ],
  },
  SluiceRedisMemory: {
    expr: 'max(sluice_redis_memory_bytes / (sluice_redis_memory_max_bytes > 0)) > 0.75',
    holds: '5m',
    severity: 'page',
    summary: 'Redis is three quarters full.',
    runbook: [
      'From here on finished batches are deleted before their time; at 80 % new work is refused with 503, what is accepted goes on.',
      'Raise maxmemory, or shorten SLUICE_RETENTION, or add masters (Cluster) and let slots move.',
      'Is a backlog the reason? Then `sluice_queue_depth` grows: it is capacity or a target, not memory, that is short.',
    ],
  },
  SluiceRetentionEarly: {
    expr: 'sum(increase(sluice_retention_early_total[1h])) > 0',
    holds: '5m',
    severity: 'ticket',
    summary: 'Finished batches are deleted before their retention ends.',
    runbook: ['SLUICE_RETENTION is too long for the memory that Redis has. Shorten it, or give Redis more.'],
  },
  SluiceThreadsRestart: {
    expr: 'sum by (pool) (increase(sluice_thread_restarts_total[15m])) > 3',
    holds: '0s',
    severity: 'page',
    summary: 'Worker threads die again and again.',
    runbook: [
      'The log has the error of each. What a thread had in flight is called again by others, so targets may see calls twice.',
      'Memory: look at `process_resident_memory_bytes` before each restart.',
    ],
  },
  SluiceLeasesRecovered: {
    expr: 'sum(increase(sluice_recovered_leases_total[15m])) > 100',
    holds: '0s',
    severity: 'ticket',
    summary: 'Much work was taken back from threads that died or went silent.',
    runbook: [
      'Some after each unclean end of a process is normal: a task that was in flight there may be called twice.',
      'Without such an end, threads are frozen: look at `sluice_event_loop_lag_seconds` and at steal time of the machine.',
    ],
  },
  SluiceReconciled: {
    expr: 'sum by (what) (increase(sluice_reconciled_total[1h])) > 0',
    holds: '0s',
    severity: 'ticket',
    summary: 'Data was not as it must be, and was set right.',
    runbook: [
      'The log says what, and in which batch or partition (`was set right`). `GET /v1/batches/{id}?verify=true` counts one batch anew.',
      'Look for what broke it: a restore of a part of the data, commands given by hand, keys evicted (`maxmemory-policy` must be `noeviction`).',
      'Nothing of that? Then it is a bug: report it with the lines of the log.',
    ],
  },
  SluiceDurabilityDegraded: {
    expr: 'sum(increase(sluice_durability_degraded_total[10m])) > 0',
    holds: '5m',
    severity: 'ticket',
    summary: 'Work is accepted that no replica has.',
    runbook: [
      'No replica is attached to a master. A failover now would lose the newest work. Start the replica; `strict` would refuse instead.',
    ],
  },
  SluiceApiErrors: {
    expr: 'sum(rate(sluice_api_request_seconds_count{status=~"5.."}[5m])) / sum(rate(sluice_api_request_seconds_count[5m])) > 0.05',
    holds: '5m',
    severity: 'page',
    summary: 'One in twenty API requests is answered with an error of ours.',
    runbook: [
      '503: Redis is away, full or slow (see the alerts on Redis), or processes drain. 500: a bug; the log has it by its request id.',
    ],
  },
  SluiceScheduleSkips: {
    expr: 'sum by (reason) (increase(sluice_schedule_skipped_total{reason!="overlap"}[1h])) > 0',
    holds: '0s',
    severity: 'ticket',
    summary: 'Ticks of schedules made no run.',
    runbook: [
      '`missed`: no process had the role cron for longer than SLUICE_SCHEDULE_CATCH_UP. `limiter`: a template names a rate limiter that was deleted;',
      'the schedule shows it as `last_error`.',
    ],
  },
  SluiceLimiterTimeouts: {
    expr: 'sum(rate(sluice_limiter_timeouts_total[15m])) > 0',
    holds: '15m',
    severity: 'ticket',
    summary: 'Tasks fail because they wait too long for a rate limiter.',
    runbook: [
      'More arrives than a limiter allows. `GET /v1/rate-limiters/{id}/usage` shows whose queue it is; raise its limit or its `queue_timeout`.',
    ],
  },
} as const satisfies Record<string, AlertRow>;
