// Rate limiters on a Redis Cluster of three masters with a replica each; test/full has more of it.
import { startCluster } from '../helpers/cluster.ts';
import { WRITES } from './limiting.ts';
import { limits } from './limits.ts';
import { limitsWaiting } from './limits-waiting.ts';
import { openStage } from './stage.ts';

const cluster = await startCluster();
const seeds = cluster.nodes.map(({ port }) => `127.0.0.1:${port}`).join(',');
const stage = await openStage({ ...WRITES, redis_url: `redis+cluster://${seeds}` });
limits(stage);
limitsWaiting(stage);
