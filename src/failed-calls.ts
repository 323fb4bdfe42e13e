// Counts calls of scripts that failed, in the main thread and in each that has a client of its own.
import type { Metrics } from './metrics/registry.ts';
import { isUnavailable } from './store/errors.ts';
import { CALL_FAILED, type RedisClient } from './store/script.ts';

/** Keeps `redis_errors_total` of what is called by `client`. */
export function countFailedCalls(metrics: Metrics, client: RedisClient): void {
  const unavailable = metrics.counter('redis_errors_total', { kind: 'unavailable' });
  const other = metrics.counter('redis_errors_total', { kind: 'other' });
  client.on(CALL_FAILED, (error: unknown) => (isUnavailable(error) ? unavailable : other).add());
}
