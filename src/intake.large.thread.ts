// The thread that prepares the largest bodies, so that one tenant's 15 MiB do not stop the front door; it also writes their tasks to Redis,
// where they wait for the commit.
import { workerData } from 'node:worker_threads';
import { keepsBody, memoryOfPrepared, type Prepared, type PrepareRequest, prepare, type Ready } from './api/prepare.ts';
import { Demand, takeBreaths } from './base/breath.ts';
import { INTAKE_GIVES_WAY_BYTES_MIN } from './base/limits.ts';
import { createLog } from './base/log.ts';
import type { LogLevel } from './base/log-level.ts';
import type { IntakeThreadData } from './intake.thread.ts';
import { type StagePlace, stageAhead } from './store/batches.ts';
import { createClient } from './store/client.ts';
import type { ConnectionSpec, RedisClient } from './store/connect.ts';
import { afterStaging } from './store/encoded.ts';
import { isUnavailable } from './store/errors.ts';
import { withMemory } from './threads/calls.ts';

/** What the main thread gives it; structured-cloneable. */
export interface LargeIntakeThreadData extends IntakeThreadData {
  connection: ConnectionSpec;
  log_level: LogLevel;
  /** The cells of a `Demand`: who else would like to be served. */
  demand: Int32Array;
}

const data = workerData as LargeIntakeThreadData;
const demand = new Demand(data.demand);
let client: RedisClient | null = null;

/** What comes back: the body's memory too, to be used again, unless the outcome needs it. */
export interface LargePrepared {
  prepared: Prepared;
  room: ArrayBuffer | null;
}

export default async function run(request: PrepareRequest): Promise<LargePrepared> {
  takeBreaths(demand, request.body.byteLength > INTAKE_GIVES_WAY_BYTES_MIN);
  const prepared = prepare(request, data.policy);
  const { outcome } = prepared;
  if (outcome.kind === 'ready' && request.stage !== null && (await staged(outcome, request.stage))) {
    outcome.tasks = afterStaging(outcome.tasks);
  }
  const room = keepsBody(prepared) || !(request.body.buffer instanceof ArrayBuffer) ? null : request.body.buffer;
  return withMemory({ prepared, room }, room === null ? memoryOfPrepared(prepared) : [...memoryOfPrepared(prepared), room]);
}

/** False where Redis cannot take it now: whoever asked knows what to do. */
async function staged({ tasks }: Ready, place: StagePlace): Promise<boolean> {
  if (tasks.segments.length === 0) return false;
  try {
    client ??= createClient(data.connection, { role: 'intake', log: createLog({ level: data.log_level, fields: { thread: 'intake' } }) });
    await stageAhead(client, tasks, place);
    return true;
  } catch (error) {
    if (!isUnavailable(error)) throw error;
    return false;
  }
}
