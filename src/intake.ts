// Where bodies of many tasks are prepared: small ones at once, larger ones in a thread of their own, and the largest in another, which takes its
// time and also writes what it made of them. So a create of a thousand tasks waits behind none of a hundred thousand.
import { extname } from 'node:path';
import { type Prepared, type PrepareRequest, prepare } from './api/prepare.ts';
import { INTAKE_INLINE_BYTES_MAX, INTAKE_STAGE_BYTES_MIN, INTAKE_WAITING_MAX } from './base/limits.ts';
import type { Log } from './base/log.ts';
import type { Service } from './base/service.ts';
import type { LargeIntakeThreadData } from './intake.large.thread.ts';
import { CallWorker } from './threads/calls.ts';

export interface Intake {
  workers: readonly Service[];
  /** The body's memory may be gone afterwards. */
  prepare(request: PrepareRequest): Prepared | Promise<Prepared>;
}

export function makeIntake(data: LargeIntakeThreadData, log: Log): Intake {
  const { policy } = data;
  const workerOf = (name: string, thread: string, given: unknown, on_demand: boolean): CallWorker<PrepareRequest, Prepared> =>
    new CallWorker({
      name,
      entry: new URL(`./${thread}${extname(import.meta.url)}`, import.meta.url),
      data: given,
      on_demand,
      waiting_max: INTAKE_WAITING_MAX,
      log,
    });
  const worker = workerOf('intake', 'intake.thread', { policy }, false);
  const large = workerOf('intake-large', 'intake.large.thread', data, true);
  return {
    workers: [worker, large],
    prepare: (request) => {
      const { body } = request;
      if (body.byteLength <= INTAKE_INLINE_BYTES_MAX) return prepare(request, policy);
      return (body.byteLength <= INTAKE_STAGE_BYTES_MIN ? worker : large).call(
        request,
        body.buffer instanceof ArrayBuffer ? [body.buffer] : [],
      );
    },
  };
}
