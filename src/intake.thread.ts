// The thread that prepares bodies of many tasks. It loads no more than it needs for that: with ioredis beside it, which makes nothing of its own
// slower, V8 takes half as much time again for the same work.
import { workerData } from 'node:worker_threads';
import { memoryOfPrepared, type Prepared, type PrepareRequest, prepare } from './api/prepare.ts';
import type { EgressPolicy } from './outbound/addresses.ts';
import { withMemory } from './threads/calls.ts';

/** What the main thread gives it; structured-cloneable. */
export interface IntakeThreadData {
  policy: EgressPolicy;
}

const data = workerData as IntakeThreadData;

export default function run(request: PrepareRequest): Prepared {
  const prepared = prepare(request, data.policy);
  return withMemory(prepared, memoryOfPrepared(prepared));
}
