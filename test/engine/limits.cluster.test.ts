// Rate limiters on a Redis Cluster of three masters with a replica each.
import { startCluster } from '../helpers/cluster.ts';
import { limits } from './limits.ts';
import { openStage } from './stage.ts';

const cluster = await startCluster();
const seeds = cluster.nodes.map(({ port }) => `127.0.0.1:${port}`).join(',');
limits(await openStage({ redis_url: `redis+cluster://${seeds}` }));
