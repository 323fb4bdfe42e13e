// graphile-worker, tuned as its documentation says for throughput: jobs are fetched by the hundred into a local queue, and
// completed together.
import { Logger, makeWorkerUtils, run, type WorkerUtils } from 'graphile-worker';
import type { GraphileQuestion } from '../lib/graphile.ts';
import { payload } from '../lib/payload.ts';
import { Caller } from './call.ts';

const CONCURRENCY = 100;
const BULK = 1_000;
const AT_ONCE = 4;

const [, , connectionString = '', origin = '', role = ''] = process.argv;

interface Data {
  url: string;
  payload: object;
}

interface Spec {
  identifier: 'call';
  payload: Data;
}

let prepared: Spec[] = [];

async function answer(utils: WorkerUtils, question: GraphileQuestion): Promise<object> {
  if (question.type === 'prepare') {
    const spec = (n: number): Spec => ({ identifier: 'call', payload: { url: question.url, payload: payload(n, question.bytes) } });
    prepared = Array.from({ length: question.count }, (_, i) => spec(i));
    return {};
  }
  if (question.type === 'tidy') {
    await utils.withPgClient((client) => client.query('vacuum graphile_worker._private_jobs'));
    return {};
  }
  let next = 0;
  const adder = async (): Promise<void> => {
    while (next < prepared.length) {
      const from = next;
      next += BULK;
      await utils.addJobs(prepared.slice(from, from + BULK));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, adder));
  return {};
}

if (role === 'producer') {
  const utils = await makeWorkerUtils({ connectionString, logger: new Logger(() => () => {}) });
  await utils.migrate();
  process.on('message', async (question: GraphileQuestion) => process.send?.(await answer(utils, question)));
} else {
  const caller = new Caller(origin, CONCURRENCY);
  const runner = await run({
    preset: {
      worker: {
        connectionString,
        // It would say a line for each job.
        logger: new Logger(() => () => {}),
        concurrentJobs: CONCURRENCY,
        maxPoolSize: 10,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      },
    },
    noHandleSignals: true,
    taskList: {
      call: async (data) => {
        const { url, payload: body } = data as Data;
        await caller.call(url, JSON.stringify(body));
      },
    },
  });
  runner.events.on('job:error', ({ error }) => {
    throw error;
  });
}
process.send?.({ type: 'ready', port: 0 });
