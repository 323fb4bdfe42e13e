// Every hard limit in one place, with the relations between them. Times that tests change are settings, in config.ts.

/** Tasks in one page (a hash field), as lua/lib/append.lua has it: 16 cost 72 bytes less a task than a field each. */
export const PAGE_TASKS = 16;
/** Tasks in one segment (a hash), as lua/lib/append.lua has it. */
export const SEGMENT_TASKS_MAX = 1000;
/** Bytes after which a segment takes no more tasks: a script that touches one holds Redis for about a millisecond. */
export const SEGMENT_BYTES_MAX = 1_048_576;
/** Bytes staged in one round trip, or a segment: what others ask of Redis meanwhile comes in between. */
export const STAGE_BYTES_MAX = 131_072;
/** A create whose process died leaves its segments this long. */
export const STAGE_TTL_MS = 60_000;
/** Runs (neighbours of one origin, timeout and due time) that a commit queues itself; more are dealt out by claims. */
export const BATCH_RUNS_MAX = 64;

/** Bodies up to here are prepared at the front door: about a millisecond, or some where tasks are tiny, is what one request may take of it. */
export const INTAKE_INLINE_BYTES_MAX = 262_144;
/** And up to here, while that takes no more than a tenth of its time (src/intake.ts): about 2 ms for 1,000 tasks, up to 25 for 20,000. Larger ones have a thread. */
export const INTAKE_SHARE_BYTES_MAX = 524_288;
/** Longer ones a thread reads at half its speed, so that others have the cores in between, and writes itself. */
export const INTAKE_STAGE_BYTES_MIN = 2_097_152;
/** Larger ones give way to all other requests; ten thousand small tasks are not as large. */
export const INTAKE_GIVES_WAY_BYTES_MIN = 4_194_304;
/** Bodies that wait for one of these threads; each takes the one some milliseconds, and one of 16 MiB the other 0.7 s, or 2 s while others ask. */
export const INTAKE_WAITING_MAX = 32;

/** Of a body of one task a line: tasks and bytes that are added at once, which is also the longest line. */
export const LINES_MAX = 1_000;
export const LINES_BYTES_MAX = 1_048_576;
/** Faults that the answer to such a body lists, where bad lines are left out: about 150 KB. */
export const LINES_FAULTS_MAX = 1_000;
/** Of such a body: what came and is not taken yet; more waits with the client. And what one takes of the room for bodies. */
export const LINES_WAITING_BYTES_MAX = 262_144;
export const LINES_ROOM_BYTES = 4 * LINES_BYTES_MAX;
/** Where adding line by line ends: a state string of 10 MB is what one batch may take of a script's time and of a reply. */
export const BATCH_TASKS_MAX = 10_000_000;

/** Single tasks that one call puts into a tray, and their bytes: about a millisecond of Redis. */
export const TRAY_GROUP_TASKS_MAX = 200;
export const TRAY_GROUP_BYTES_MAX = 262_144;

/** Reads of batches that one call answers: where each is of another batch, about a millisecond of Redis. */
export const READ_GROUP_MAX = 200;

/** Tasks of an expired batch whose bytes are rewritten in one call: about a millisecond of Redis. */
export const SWEEP_TASKS_MAX = 20_000;

/** Tasks in one claim: less than a millisecond of Redis. */
export const CLAIM_MAX = 256;
/** A claim that brought less leaves nothing behind that calls for help, such as the probe of a broken origin. */
export const CLAIM_HELP_MIN = 32;
/** A partition that never starves has this many places in flight whatever the others do. */
export const PLACES_MIN = 16;
/** Claims that a thread has under way: what it may take of an origin is known only when the ones before were answered. */
export const CLAIMS_UNDER_WAY_MAX = 2;
/** A claim unanswered for this long holds up no other: its Redis node may be frozen. */
export const CLAIM_PATIENCE_MS = 50;

/** Origins that a thread remembers, and those that a claim is told about. */
export const ORIGINS_MAX = 2_000;
export const ROOMS_MAX = 500;
/** Connect failures in a row that break an origin, and the time between the probes of a broken one. */
export const BREAKER_FAILURES = 20;
export const BREAKER_PROBE_MS = 5_000;

/**
 * Between two offers of a partition to take the next single task, and those of a thread in all. Each task that is handed over costs Redis as much as a claim, and the
 * thread a turn of its pump: where more come they are claimed, many at a time.
 */
export const OFFER_GAP_MS = 10;
export const OFFERS_PER_S_MAX = 1_000;

/** Outcomes that are settled at once, without waiting for more. */
export const SETTLE_FLUSH = 256;
/** Outcomes in one settle call. */
export const SETTLE_MAX = 512;
/** How long an outcome waits for company, and how long while others of its partition are under way. */
export const SETTLE_DELAY_MS = 2;
export const SETTLE_DELAY_MS_MAX = 8;
/** So many are company enough for each other where nothing else of their partition is under way. */
export const SETTLE_COMPANY = 8;

/** Parsed task heads that a thread remembers. */
export const SPECS_MAX = 4096;
/** Origins of URLs that a thread remembers, by what was written for them. */
export const ORIGINS_REMEMBERED_MAX = 4096;
/** Accounts whose signing secrets a thread remembers; after how long it reads them again, and after how long it does so before it signs. */
export const ACCOUNTS_MAX = 10_000;
export const SECRETS_TTL_MS = 5_000;
export const SECRETS_OLD_MS = 10_000;

/** What a task that says nothing about retries gets (spec/api.md, section 3). */
export const DEFAULT_RETRY = { max_retries: 3, backoff: 'exponential', delay: 1, max_delay: 3600 } as const;
export const DEFAULT_TIMEOUT_S = 30;
/** Pages of a delivery log that are read in one round trip where it is searched for an event: about 200 KB. */
export const LOG_PAGES_READ = 200;
/** Total deadline of a try of a notification; as lua/lib/notify.lua has it. */
export const NOTIFICATION_TIMEOUT_MS = 15_000;
/** Of a thread's places those that notifications may have at once: slow webhooks leave the rest to tasks. */
export const NOTIFICATIONS_SHARE = 0.25;
/** Starts that may die with their process before a task is failed as `worker_lost`. */
export const RECOVERIES_MAX = 3;
/** Hours that a batch lives where its creator said nothing. */
export const DEFAULT_EXPIRATION_H = 24;

if (SEGMENT_TASKS_MAX < PAGE_TASKS || CLAIM_MAX > SETTLE_MAX || SETTLE_FLUSH > SETTLE_MAX)
  throw new Error('The limits contradict each other.');
