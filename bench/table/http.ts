// Requests a second of the API over 64 connections, by one load: creates of single tasks beside the least that Fastify does
// for a POST, reads of a batch beside bare uWebSockets.js and one HGETALL.
import { BareRedis } from '../lib/bare-redis.ts';
import { type Load, load } from '../lib/load.ts';
import { startPeer } from '../lib/peer.ts';
import { Helper } from '../lib/process.ts';
import { type Ground, HOUR_MS, type Row, startStage, tableBodies, tableTask } from './row.ts';

const DURATION_S = 4;

type Request = Parameters<typeof load>[0];

export const posts: Row = {
  name: 'posts',
  what: 'POST /v1/tasks of tasks due in an hour, stored when it is answered; Fastify: the same body, answered hello',
  async sluice(ground) {
    const stage = await startStage(ground);
    const headers = { authorization: `Bearer ${stage.engine.token}`, 'content-type': 'application/json' };
    const request = { url: `${stage.engine.url}/v1/tasks`, method: 'POST', headers, body: parked(ground) } as const;
    return side(
      ground,
      () => request,
      () => stage.stop(),
    );
  },
  peers: {
    async fastify(ground) {
      const peer = await startPeer('fastify');
      const headers = { 'content-type': 'application/json' };
      const request = { url: `http://127.0.0.1:${peer.port}/hello`, method: 'POST', headers, body: parked(ground) } as const;
      return side(
        ground,
        () => request,
        () => peer.stop(),
      );
    },
  },
  measures: [
    {
      ...{ number: '12', measure: 'POST /v1/tasks persisted, req/s ÷ Fastify’s hello POST', value: 'sluice/peer', better: 'higher' },
      ...{ sluice: 'sluice.requests_per_s', peer: 'fastify.requests_per_s', must: 0.6, aim: 0.9 },
    },
  ],
};

export const reads: Row = {
  name: 'reads',
  what: 'GET /v1/batches/{id}; bare: uWebSockets.js and one HGETALL of as many fields',
  async sluice(ground) {
    const stage = await startStage(ground);
    const headers = { authorization: `Bearer ${stage.engine.token}` };
    // Each load reads a batch of its own: a quick machine reads one more often than the million a minute that its limit can be.
    const request = async (): Promise<Request> => {
      const [id = ''] = await stage.api.createBatches(tableBodies(`${ground.receiver.origin}/hook`, 100));
      await stage.api.completed([id]);
      return { url: `${stage.engine.url}/v1/batches/${id}`, method: 'GET', headers };
    };
    return side(ground, request, () => stage.stop());
  },
  peers: {
    async bare(ground) {
      const redis = await BareRedis.start({ append_only: true });
      const bare = await Helper.start(new URL('../lib/read.process.ts', import.meta.url), [redis.path]);
      const request: Request = { url: `http://127.0.0.1:${bare.port}/`, method: 'GET', headers: {} };
      return side(
        ground,
        () => request,
        async () => {
          await bare.stop();
          await redis.stop();
        },
      );
    },
  },
  measures: [
    {
      ...{ number: '13', measure: 'GET /v1/batches/{id}, req/s ÷ bare uWS and one HGETALL', value: 'sluice/peer', better: 'higher' },
      ...{ sluice: 'sluice.requests_per_s', peer: 'bare.requests_per_s', must: 0.8, aim: 0.95 },
    },
  ],
};

function parked({ receiver }: Ground): string {
  return JSON.stringify(tableTask(`${receiver.origin}/hook`, 0, { execute_after: new Date(Date.now() + HOUR_MS).toISOString() }));
}

/** `next` makes the request of each load. */
async function side({ smoke }: Ground, next: () => Request | Promise<Request>, close: () => Promise<void>): ReturnType<Row['sluice']> {
  const send = async (): Promise<Load> => load(await next(), smoke ? { amount: 300 } : { duration_s: DURATION_S });
  await send();
  return { once: async () => ({ requests_per_s: (await send()).requests_s }), close };
}
