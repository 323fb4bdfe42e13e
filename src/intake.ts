// Where bodies of many tasks are prepared: small ones at once, larger ones in a thread of their own, and the largest in another, which takes its
// time and also writes what it made of them. So a create of a thousand tasks waits behind none of a hundred thousand. One that comes alone is
// prepared at once as well: on its way to a thread and back it would take about as long again.
import { extname } from 'node:path';
import { type Prepared, type PrepareRequest, prepare } from './api/prepare.ts';
import { Demand } from './base/breath.ts';
import { monotonicMs } from './base/clock.ts';
import { INTAKE_INLINE_BYTES_MAX, INTAKE_SHARE_BYTES_MAX, INTAKE_STAGE_BYTES_MIN, INTAKE_WAITING_MAX } from './base/limits.ts';
import type { Log } from './base/log.ts';
import { Rooms } from './base/rooms.ts';
import type { Service } from './base/service.ts';
import { Share } from './base/share.ts';
import type { LargeIntakeThreadData, LargePrepared } from './intake.large.thread.ts';
import { CallWorker } from './threads/calls.ts';

/** Of the front door's time, for bodies that may be prepared there or elsewhere. */
const INLINE_SHARE = 1 / 10;

export interface Intake {
  workers: readonly Service[];
  /** Where the largest bodies are read into; their memory goes to a thread and back. */
  rooms: Rooms;
  /** A request was answered. */
  served(bytes_in: number): void;
  /** The body's memory may be gone afterwards. */
  prepare(request: PrepareRequest): Prepared | Promise<Prepared>;
}

export function makeIntake(data: Omit<LargeIntakeThreadData, 'demand'>, log: Log): Intake {
  const { policy } = data;
  const rooms = new Rooms();
  const demand = new Demand();
  const share = new Share(INLINE_SHARE, monotonicMs);
  const workerOf = <Out>(name: string, thread: string, given: unknown, on_demand: boolean): CallWorker<PrepareRequest, Out> =>
    new CallWorker({
      name,
      entry: new URL(`./${thread}${extname(import.meta.url)}`, import.meta.url),
      data: given,
      on_demand,
      waiting_max: INTAKE_WAITING_MAX,
      log,
    });
  const worker = workerOf<Prepared>('intake', 'intake.thread', { policy }, false);
  const large = workerOf<LargePrepared>('intake-large', 'intake.large.thread', { ...data, demand: demand.cells }, true);
  const prepareLarge = async (request: PrepareRequest, moved: readonly ArrayBuffer[]): Promise<Prepared> => {
    demand.called(1);
    try {
      const { prepared, room } = await large.call(request, moved);
      if (room !== null) rooms.give(room);
      return prepared;
    } finally {
      demand.called(-1);
    }
  };
  return {
    workers: [worker, large],
    rooms,
    served: (bytes_in) => {
      if (bytes_in <= INTAKE_STAGE_BYTES_MIN) demand.served();
    },
    prepare: (request) => {
      const { body } = request;
      if (body.byteLength <= INTAKE_INLINE_BYTES_MAX) return prepare(request, policy);
      if (body.byteLength <= INTAKE_SHARE_BYTES_MAX && share.isLeft) return share.spend(() => prepare(request, policy));
      const moved = body.buffer instanceof ArrayBuffer ? [body.buffer] : [];
      if (body.byteLength <= INTAKE_STAGE_BYTES_MIN) return worker.call(request, moved);
      return prepareLarge(request, moved);
    },
  };
}
