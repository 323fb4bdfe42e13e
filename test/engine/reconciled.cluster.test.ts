// A reconciler at work, on a Redis Cluster of three masters with a replica each.
import { startCluster } from '../helpers/cluster.ts';
import { OFTEN, reconciles } from './reconciled.ts';
import { openStage } from './stage.ts';

const cluster = await startCluster();
const seeds = cluster.nodes.map(({ port }) => `127.0.0.1:${port}`).join(',');
reconciles(await openStage({ ...OFTEN, redis_url: `redis+cluster://${seeds}` }), cluster.connect());
