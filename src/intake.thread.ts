// The thread that prepares large bodies, so that one tenant's 15 MiB do not stop the front door.
import { workerData } from 'node:worker_threads';
import { memoryOfPrepared, type Prepared, type PrepareRequest, prepare } from './api/prepare.ts';
import type { EgressPolicy } from './outbound/addresses.ts';
import { withMemory } from './threads/calls.ts';

const policy = workerData as EgressPolicy;

export default function run(request: PrepareRequest): Prepared {
  const prepared = prepare(request, policy);
  return withMemory(prepared, memoryOfPrepared(prepared));
}
