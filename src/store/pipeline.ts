// Pipelines that are garbage as soon as they have run.
//
// ioredis (6.0.0) defines `length` on each pipeline as a getter of its own, and each gets a hidden class by that. V8 collects those with the whole heap only, and
// each keeps its pipeline, with all that it sent and was answered (docs/decisions/0061-what-outlives-its-use.md). Here the getter is one of the class.
import type { ChainableCommander } from 'ioredis';
import { monotonicMs } from '../base/clock.ts';
import { afterCut } from './errors.ts';
import type { RedisClient } from './script.ts';

/** Of a call or a pipeline on Cluster: how many tries ioredis has left for it, and whether one of them was cut. */
export interface Tries {
  value?: number;
  cut?: true;
}

type Replies = [error: Error | null, reply: unknown][];

/** On a command of a pipeline on Cluster: when it is given up, over all tries of the pipeline; monotonic, ms. */
export const GIVEN_UP_MS = Symbol('given up');

export interface Timed {
  [GIVEN_UP_MS]?: number;
}

/** Makes what `client.pipeline()` makes, of which `model` is one; without commands that are defined on the client later, of which we have none. */
export function pipelinesOf(client: RedisClient, model: ChainableCommander): (commands?: unknown[][]) => ChainableCommander {
  const { isCluster, scriptsSet, addedBuiltinSet } = model as unknown as Record<string, unknown>;
  const send = model.exec as (this: unknown, ...given: unknown[]) => Promise<unknown>;

  /** The fields that ioredis gives a pipeline; test/store/pipeline.test.ts holds them against its own. */
  class Pipeline {
    options = client.options;
    scriptsSet = scriptsSet;
    addedBuiltinSet = addedBuiltinSet;
    redis = client;
    isPipeline = true;
    replyPending = 0;
    _queue: Timed[] = [];
    _result: unknown[] = [];
    _transactions = 0;
    _shaToScript = {};
    isCluster = isCluster;
    /** What ioredis gives to `handleError`, from the first error on. */
    declare leftRedirections?: Tries;
    resolve!: (replies: Replies) => void;
    reject: unknown;
    promise = new Promise<Replies>((resolve, reject) => {
      this.resolve = (replies: Replies) => resolve(this.leftRedirections?.cut ? replies.map(uncertain) : replies);
      this.reject = reject;
    });

    get length(): number {
      return this._queue.length;
    }

    /** Each try on Cluster comes through here; none begins when the time for all of them is over. */
    exec(...given: unknown[]): Promise<unknown> {
      const [first] = this._queue;
      if (first === undefined || monotonicMs() < (first[GIVEN_UP_MS] ?? Number.POSITIVE_INFINITY)) return send.apply(this, given);
      this.resolve(this._queue.map(() => [new Error('Command timed out'), undefined]));
      return this.promise;
    }
  }
  Object.setPrototypeOf(Pipeline.prototype, Object.getPrototypeOf(model));
  return (commands) => {
    const pipeline = new Pipeline() as unknown as ChainableCommander & { addBatch(commands: unknown[][]): void };
    if (commands !== undefined) pipeline.addBatch(commands);
    return pipeline;
  };
}

/** ioredis ends a pipeline with the errors of its last try. */
function uncertain([error, reply]: Replies[number]): Replies[number] {
  return [error && afterCut(error), reply];
}
