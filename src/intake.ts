// Where bodies of many tasks are prepared: small ones at once, large ones in a thread of their own, which also writes what it made of them.
import { extname } from 'node:path';
import { type Prepared, type PrepareRequest, prepare } from './api/prepare.ts';
import { INTAKE_INLINE_BYTES_MAX, INTAKE_WAITING_MAX } from './base/limits.ts';
import type { Log } from './base/log.ts';
import type { Service } from './base/service.ts';
import type { IntakeThreadData } from './intake.thread.ts';
import { CallWorker } from './threads/calls.ts';

export interface Intake {
  worker: Service;
  /** The body's memory may be gone afterwards. */
  prepare(request: PrepareRequest): Prepared | Promise<Prepared>;
}

export function makeIntake(data: IntakeThreadData, log: Log): Intake {
  const { policy } = data;
  const worker = new CallWorker<PrepareRequest, Prepared>({
    name: 'intake',
    entry: new URL(`./intake.thread${extname(import.meta.url)}`, import.meta.url),
    data,
    waiting_max: INTAKE_WAITING_MAX,
    log,
  });
  return {
    worker,
    prepare: (request) => {
      const { body } = request;
      if (body.byteLength <= INTAKE_INLINE_BYTES_MAX) return prepare(request, policy);
      return worker.call(request, body.buffer instanceof ArrayBuffer ? [body.buffer] : []);
    },
  };
}
