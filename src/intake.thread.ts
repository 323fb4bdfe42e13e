// The thread that prepares large bodies, so that one tenant's 15 MiB do not stop the front door; it also writes their tasks to Redis,
// where they wait for the commit.
import { workerData } from 'node:worker_threads';
import { memoryOfPrepared, type Prepared, type PrepareRequest, prepare, type Ready } from './api/prepare.ts';
import { createLog, type LogLevel } from './base/log.ts';
import type { EgressPolicy } from './outbound/addresses.ts';
import { type StagePlace, stageAhead } from './store/batches.ts';
import { createClient } from './store/client.ts';
import type { ConnectionSpec, RedisClient } from './store/connect.ts';
import { afterStaging } from './store/encoded.ts';
import { isUnavailable } from './store/errors.ts';
import { withMemory } from './threads/calls.ts';

/** What the main thread gives it; structured-cloneable. */
export interface IntakeThreadData {
  policy: EgressPolicy;
  connection: ConnectionSpec;
  log_level: LogLevel;
}

const { policy, connection, log_level } = workerData as IntakeThreadData;
const log = createLog({ level: log_level, fields: { thread: 'intake' } });
/** Connects when there is something to write for the first time: most processes never see a large body. */
let client: RedisClient | null = null;

export default async function run(request: PrepareRequest): Promise<Prepared> {
  const prepared = prepare(request, policy);
  const { outcome } = prepared;
  if (outcome.kind === 'ready' && request.stage !== null && (await staged(outcome, request.stage))) {
    outcome.tasks = afterStaging(outcome.tasks);
  }
  return withMemory(prepared, memoryOfPrepared(prepared));
}

/** False where Redis cannot take it now: whoever asked knows what to do. */
async function staged({ tasks }: Ready, place: StagePlace): Promise<boolean> {
  if (tasks.segments.length === 0) return false;
  try {
    client ??= createClient(connection, { role: 'intake', log });
    await stageAhead(client, tasks, place);
    return true;
  } catch (error) {
    if (!isUnavailable(error)) throw error;
    return false;
  }
}
