// How the tasks of a batch ended, one by one. An answer that breaks off goes on behind the last task of which all was read.
import type { TaskOutcome } from '../schema/types.gen.ts';
import { piecesOf } from './pieces.ts';
import type { Transport } from './transport.ts';

export interface ResultsOptions {
  /** Index of the task to begin with, default 0. */
  start_index?: number;
  signal?: AbortSignal;
}

/** Yields tasks that have ended, in the order of their creation. Rejects as calls do. */
export async function* resultsOf(
  transport: Transport,
  batch_id: string,
  { start_index = 0, signal }: ResultsOptions = {},
): AsyncGenerator<TaskOutcome, void, undefined> {
  const path = `/v1/batches/${encodeURIComponent(batch_id)}/results?format=ndjson&start_index=`;
  let next = start_index;
  for (let tries = 0; ; tries++) {
    try {
      const response = await transport.open(path + next, signal);
      for await (const line of piecesOf(response, '\n')) {
        const outcome = JSON.parse(line) as TaskOutcome;
        next = outcome.index + 1;
        tries = 0;
        yield outcome;
      }
      return;
    } catch (error) {
      await transport.pause(error, tries, signal);
    }
  }
}
