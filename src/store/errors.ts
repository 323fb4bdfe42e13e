// Which failures mean "Redis cannot serve this now": the caller gets 503 and may try again, a loop pauses its partition.
// Everything else that a call throws is a bug, here or in a script.

/** Sluice will not start on this store, and says why. */
export class StoreRefused extends Error {
  override readonly name = 'StoreRefused';
}

/** A create whose segments were gone before its commit: Redis stood still for a minute, or failed over. Nothing was made. */
export class StageLost extends Error {
  override readonly name = 'StageLost';
}

/** What was written may not be on a replica yet. It may exist: the same Idempotency-Key finds it. */
export class NotReplicated extends Error {
  override readonly name = 'NotReplicated';
}

/**
 * First words of error replies. Of these, only BUSY and the cluster's redirections come from a server that is well;
 * ioredis follows redirections itself and gives up after a bounded number, so one that arrives here is a loop.
 */
const REPLY_CODES = new Set([
  'LOADING', // reading its append-only file
  'BUSY', // a script runs too long
  'CLUSTERDOWN',
  'TRYAGAIN', // keys of one call lie on both sides of a slot migration
  'ASK',
  'MOVED',
  'READONLY', // demoted in a failover
  'MASTERDOWN',
  'MISCONF', // cannot write its append-only file, such as on a full disk
  'OOM', // over maxmemory
  'NOREPLICAS',
  'NOAUTH',
  'WRONGPASS',
  'NOPERM',
  'UNBLOCKED',
]);

/** Of these, the ones that a server gives before it does anything: what was asked for may be done elsewhere instead. */
const REFUSALS = new Set([
  'LOADING',
  'BUSY',
  'CLUSTERDOWN',
  'TRYAGAIN',
  'ASK',
  'MOVED',
  'READONLY',
  'MASTERDOWN',
  'MISCONF',
  'OOM',
  'NOREPLICAS',
]);

/** A script in a slot that is being moved away meets a key that has gone already. Scripts look before they write. */
const NOT_LOCAL = 'ERR Script attempted to access a non local key in a cluster node';

/** Begins our own message about work that was refused after it may have been done. */
const PERHAPS_DONE = 'Perhaps done, then refused';

/** Beginnings of messages that have no code: from ioredis 6, from Redis's scripting engine and ours. */
const BEGINNINGS = [
  PERHAPS_DONE,
  'Command timed out',
  'Connection is closed',
  'Connection is aborted',
  'Connection is discarded',
  'Command aborted due to connection close',
  'Reached the max retries per request limit',
  "Stream isn't writeable",
  "Cluster isn't ready",
  'Cluster is ended',
  'Cluster is disconnect',
  'None of startup nodes is available',
  'Failed to refresh slots cache',
  'Too many Cluster redirections',
  'All sentinels are unreachable',
  'Socket timeout',
  'Socket closed unexpectedly',
  'timeout', // ioredis's refresh of the slot map
  NOT_LOCAL,
  'ERR max number of clients reached',
];

/** Of `errno` codes those that a connection meets; ENOENT is a unix socket that is not there. */
const SYSTEM_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EHOSTDOWN',
  'ENETDOWN',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EADDRNOTAVAIL',
  'EMFILE',
]);

const CAUSES_MAX = 4;

/** Whether `error`, thrown by a call to the store, means that the store is out of reach, overloaded or failing over. */
export function isUnavailable(error: unknown): boolean {
  let current = error;
  for (let depth = 0; depth < CAUSES_MAX; depth++) {
    if (!(current instanceof Error)) return false;
    if (current instanceof StageLost || current instanceof NotReplicated || matches(current)) return true;
    if (current instanceof AggregateError && current.errors.length > 0) return current.errors.every(isUnavailable);
    current = current.cause;
  }
  return false;
}

/** Whether `error` proves that the call changed nothing, so that the same may be tried elsewhere without doing it twice. */
export function changedNothing(error: unknown): boolean {
  if (error instanceof StageLost) return true;
  return error instanceof Error && (REFUSALS.has(firstWord(error.message)) || error.message.startsWith(NOT_LOCAL));
}

/** What ends work of which a part or an earlier try may have been done, where it was refused in the end: that it may have changed something. */
export function unsure<E>(error: E): E | Error {
  return changedNothing(error) ? new Error(`${PERHAPS_DONE}: ${(error as Error).message}`, { cause: error }) : error;
}

const CUT = Symbol('cut');

/** The error of a call's last try, where the connection of an earlier one was closed under it: that may have run. */
export function afterCut(error: Error): Error {
  return Object.assign(unsure(error), { [CUT]: true });
}

export function wasCut(error: unknown): boolean {
  return error instanceof Error && CUT in error;
}

function matches(error: Error): boolean {
  if ('code' in error && typeof error.code === 'string') {
    if (SYSTEM_CODES.has(error.code)) return true;
    if (error.code === 'ENOENT' && 'syscall' in error && error.syscall === 'connect') return true;
  }
  if (REPLY_CODES.has(firstWord(error.message))) return true;
  return BEGINNINGS.some((beginning) => error.message.startsWith(beginning));
}

function firstWord(message: string): string {
  const space = message.indexOf(' ');
  return space < 0 ? message : message.slice(0, space);
}
