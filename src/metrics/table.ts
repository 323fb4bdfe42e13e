// The metric table: one row a metric. What /metrics serves, docs/metrics.md and the dashboards come from it.
//
// Names in Prometheus are `sluice_` and the row's. No metric carries an id or a URL: series would grow without end. Accounts are
// named by `limiter_top_…` alone, at most 50 at a time, and only where /metrics is not open to everybody. `merge` says how a gauge of several threads becomes one.

export type MetricRow =
  | { kind: 'counter'; help: string; labels: readonly string[]; question: string }
  | { kind: 'gauge'; help: string; labels: readonly string[]; question: string; merge: 'sum' | 'max' }
  | { kind: 'histogram'; help: string; labels: readonly string[]; question: string; buckets: readonly number[] };

/** Seconds; from a fast answer on the same machine to the longest timeout of a task (900 s). */
const CALL_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900] as const;
/** Seconds; from "at once" to an outage of an hour. */
const LAG_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 600, 3600] as const;
/** Seconds; up to the command timeout of the store. */
const STORE_BUCKETS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2] as const;
/** Seconds; up to what a caller waits for. */
const API_BUCKETS = [0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const;

export const METRICS = {
  callbacks_total: {
    kind: 'counter',
    help: 'Callback attempts that ended, by outcome: completed, retry (failed, will be tried again), failed (for good), returned (handed back unsent).',
    labels: ['outcome'],
    question: 'Do the targets take the work? A rising share of retry and failed means that they do not.',
  },
  callbacks_in_flight: {
    kind: 'gauge',
    help: 'Callbacks sent and not answered yet.',
    labels: [],
    merge: 'sum',
    question: 'Is the sending capacity used up? Compare with CALLBACK_THREADS × CALLBACKS_PER_THREAD.',
  },
  origins_broken: {
    kind: 'gauge',
    help: 'Target hosts that could not be reached 20 times in a row; one probe every 5 s, their work waits.',
    labels: [],
    merge: 'max',
    question: 'Is a target down?',
  },
  delivery_lag_seconds: {
    kind: 'histogram',
    help: 'Time from when a task was due to when its request was written. Waiting for a rate limiter counts.',
    labels: [],
    buckets: LAG_BUCKETS,
    question: 'Is work sent on time?',
  },
  callback_duration_seconds: {
    kind: 'histogram',
    help: 'Time from writing a callback request to its outcome.',
    labels: [],
    buckets: CALL_BUCKETS,
    question: 'How fast do the targets answer?',
  },
  notifications_total: {
    kind: 'counter',
    help: 'Notification attempts that ended, by event and outcome: delivered, retry (failed, will be tried again), failed (for good), returned (handed back unsent).',
    labels: ['event', 'outcome'],
    question: 'Do callers hear of their batches? A rising share of retry and failed means that their webhooks do not take it.',
  },
  notification_lag_seconds: {
    kind: 'histogram',
    help: 'Time from what a notification tells of to its delivery, over all tries.',
    labels: [],
    buckets: LAG_BUCKETS,
    question: 'Do callers hear of the end of their batches in time?',
  },
  notifications_dropped_total: {
    kind: 'counter',
    help: 'Notifications that were not delivered when their batch was deleted.',
    labels: [],
    question: 'Do callers delete batches that others still wait to hear of?',
  },
  spans_total: {
    kind: 'counter',
    help: 'Spans of traced requests and attempts by fate: exported, failed (the collector did not take them), dropped (too many were waiting for it).',
    labels: ['fate'],
    question: 'Does the collector keep up? Only where OTEL_EXPORTER_OTLP_ENDPOINT is set.',
  },
  queue_depth: {
    kind: 'gauge',
    help: 'Waiting deliveries by class: fresh, retry, notification (all ready), delayed (not due yet), limited (waiting for a rate limiter).',
    labels: ['class'],
    merge: 'max',
    question: 'How much work waits, and for what?',
  },
  oldest_waiting_seconds: {
    kind: 'gauge',
    help: 'Age of the oldest delivery that is due and not sent.',
    labels: [],
    merge: 'max',
    question: 'Is anything stuck?',
  },
  batches_created_total: {
    kind: 'counter',
    help: 'Batches created.',
    labels: [],
    question: 'How much is asked of the service?',
  },
  tasks_created_total: {
    kind: 'counter',
    help: 'Tasks created, by where they came from: batch, single, schedule.',
    labels: ['source'],
    question: 'How much is asked of the service, and from where?',
  },
  recovered_leases_total: {
    kind: 'counter',
    help: 'Tasks taken back from a thread that died or went silent.',
    labels: [],
    question: 'Do threads or processes die with work in hand? Each may be called twice.',
  },
  reconciled_total: {
    kind: 'counter',
    help: 'Things found not to be as they must and set right, by what: counters or end of a batch, places (its lists, its expiry), queue (tasks that waited nowhere), flight (tasks in flight that nobody held), ring, holder, outbox, away (what leads to work).',
    labels: ['what'],
    question: 'Was data lost or changed by hand? In a healthy installation this is zero for ever.',
  },
  thread_restarts_total: {
    kind: 'counter',
    help: 'Worker threads that ended by themselves and were started again.',
    labels: ['pool'],
    question: 'Is there a crash loop?',
  },
  threads: {
    kind: 'gauge',
    help: 'Worker threads that run.',
    labels: ['pool'],
    merge: 'sum',
    question: 'Does this process run what it should?',
  },
  event_loop_lag_seconds: {
    kind: 'gauge',
    help: 'Delay of the event loop of a thread since the last look, by percentile: 50, 99, 100.',
    labels: ['thread', 'percentile'],
    merge: 'max',
    question: 'Is a thread out of processor time?',
  },
  redis_command_seconds: {
    kind: 'histogram',
    help: 'Time of a call to Redis as its caller saw it, by script.',
    labels: ['script'],
    buckets: STORE_BUCKETS,
    question: 'Is Redis, or the way to it, slow?',
  },
  redis_errors_total: {
    kind: 'counter',
    help: 'Calls of scripts in Redis that failed, by kind: unavailable (out of reach, overloaded, failing over), other (a fault of ours).',
    labels: ['kind'],
    question: 'Is Redis out of reach?',
  },
  redis_up: {
    kind: 'gauge',
    help: '1 while Redis answers this process.',
    labels: [],
    merge: 'max',
    question: 'Can the service work at all?',
  },
  redis_memory_bytes: {
    kind: 'gauge',
    help: 'Memory that Redis uses, by node (its number, in the order of the slots).',
    labels: ['node'],
    merge: 'max',
    question: 'When will Redis be full? New work is refused at 80 % of redis_memory_max_bytes.',
  },
  redis_memory_max_bytes: {
    kind: 'gauge',
    help: 'maxmemory of Redis, by node; 0 = no limit.',
    labels: ['node'],
    merge: 'max',
    question: 'When will Redis be full?',
  },
  durability_degraded_total: {
    kind: 'counter',
    help: 'Requests answered without a replica although DURABILITY is replicated.',
    labels: [],
    question: 'Would a failover lose accepted work?',
  },
  retention_early_total: {
    kind: 'counter',
    help: 'Finished batches removed before their retention ended, to make room in Redis.',
    labels: [],
    question: 'Is RETENTION too long for the memory?',
  },
  limiter_grants_total: {
    kind: 'counter',
    help: 'Starts granted by rate limiters, by type.',
    labels: ['type'],
    question: 'How much work is rate limited?',
  },
  limiter_timeouts_total: {
    kind: 'counter',
    help: 'Tasks that failed while they waited for a rate limiter (queue_timeout, validity_timeout, or their own valid_until), by type of the limiter.',
    labels: ['type'],
    question: 'Are limits too tight for the load?',
  },
  limiter_wait_seconds: {
    kind: 'histogram',
    help: 'Time that tasks waited in the line of their rate limiter until they were granted a start, by type of the limiter.',
    labels: ['type'],
    buckets: LAG_BUCKETS,
    question: 'How long does rate limiting hold work up?',
  },
  limiter_slots_reclaimed_total: {
    kind: 'counter',
    help: 'Slots of concurrent rate limiters that were freed by their lock timeout, since nobody said that their task had ended.',
    labels: [],
    question: 'Are slots lost, in failovers or by holders that die?',
  },
  limiter_waiting: {
    kind: 'gauge',
    help: 'Tasks that wait in lines of rate limiters, by type. Looked up in Redis: the same in every process.',
    labels: ['type'],
    merge: 'max',
    question: 'How much work is held up by rate limits?',
  },
  limiter_top_grants_total: {
    kind: 'counter',
    help: 'Starts granted by each of the 50 rate limiters that this process serves most; of the others together as limiter "other" without an account.',
    labels: ['account', 'limiter'],
    question: 'Which limiters let the most work through?',
  },
  limiter_top_timeouts_total: {
    kind: 'counter',
    help: 'Tasks that failed while they waited, of each of those limiters.',
    labels: ['account', 'limiter'],
    question: 'Which limit is too tight?',
  },
  limiter_top_wait_seconds: {
    kind: 'histogram',
    help: 'Time that tasks waited until they were granted a start, of each of those limiters.',
    labels: ['account', 'limiter'],
    buckets: LAG_BUCKETS,
    question: 'Whose work is held up, and for how long?',
  },
  limiter_top_slots_reclaimed_total: {
    kind: 'counter',
    help: 'Slots that were freed by their lock timeout, of each of those limiters.',
    labels: ['account', 'limiter'],
    question: 'Whose slots are lost?',
  },
  limiter_top_waiting: {
    kind: 'gauge',
    help: 'Tasks that wait in the line of each of those limiters; not known of the others together.',
    labels: ['account', 'limiter'],
    merge: 'max',
    question: 'Where does limited work pile up?',
  },
  messages_moved_total: {
    kind: 'counter',
    help: 'Messages carried from one partition to another.',
    labels: [],
    question: 'How much do rate limiters and partitions have to tell each other?',
  },
  messages_failed_total: {
    kind: 'counter',
    help: 'Tries to carry messages to a partition that failed; they are repeated.',
    labels: [],
    question: 'Is a partition out of reach of the others?',
  },
  references_resent_total: {
    kind: 'counter',
    help: 'Ranges of tasks that their rate limiter did not know and was told again.',
    labels: [],
    question: 'Did a failover lose messages? Without one it stays at 0.',
  },
  schedule_runs_total: {
    kind: 'counter',
    help: 'Scheduled runs created, those made by hand not counted.',
    labels: [],
    question: 'Do schedules fire?',
  },
  schedule_skipped_total: {
    kind: 'counter',
    help: 'Ticks of schedules that made no run, by reason: overlap (the run before is unfinished), missed (too old to catch up), limiter (it was deleted).',
    labels: ['reason'],
    question: 'Which schedules do not keep up?',
  },
  schedule_decision_seconds: {
    kind: 'histogram',
    help: 'Time from when a tick was to be decided (its run is made ahead of its time) to when that was begun; of each look that found some, the longest.',
    labels: [],
    buckets: LAG_BUCKETS,
    question: 'Do the tickers keep up?',
  },
  schedule_lag_seconds: {
    kind: 'gauge',
    help: 'For how long the tick that waits longest should have been decided. Looked up in Redis, whoever should have done it.',
    labels: [],
    merge: 'max',
    question: 'Does a ticker run at all? Alert above some seconds.',
  },
  api_request_seconds: {
    kind: 'histogram',
    help: 'Time from the head of a request to its answer, by route and status.',
    labels: ['route', 'status'],
    buckets: API_BUCKETS,
    question: 'Is the API fast, and does it answer with errors?',
  },
  http_connections: {
    kind: 'gauge',
    help: 'Open connections to the API.',
    labels: [],
    merge: 'sum',
    question: 'Is the number of open files a limit?',
  },
  streams_open: {
    kind: 'gauge',
    help: 'Open progress streams.',
    labels: [],
    merge: 'sum',
    question: 'How many watch?',
  },
  stream_frames_total: {
    kind: 'counter',
    help: 'Messages handed to progress streams.',
    labels: [],
    question: 'How much do streams send?',
  },
  streams_closed_total: {
    kind: 'counter',
    help: 'Progress streams that ended, by reason: finished, client (it went away), slow, misused, revoked (its token), crowded (its place was lost), deleted, shutdown.',
    labels: ['reason'],
    question: 'Do readers keep up?',
  },
  build_info: {
    kind: 'gauge',
    help: 'Always 1; the labels say what runs.',
    labels: ['version', 'node'],
    merge: 'max',
    question: 'Which version runs where?',
  },
} as const satisfies Record<string, MetricRow>;

type Table = typeof METRICS;
export type MetricName = keyof Table;
export type CounterName = { [K in MetricName]: Table[K]['kind'] extends 'counter' ? K : never }[MetricName];
export type GaugeName = { [K in MetricName]: Table[K]['kind'] extends 'gauge' ? K : never }[MetricName];
export type HistogramName = { [K in MetricName]: Table[K]['kind'] extends 'histogram' ? K : never }[MetricName];
/** The labels of a metric with their values; `{}` where it has none. */
export type Labels<K extends MetricName> = { readonly [L in Table[K]['labels'][number]]: string };
