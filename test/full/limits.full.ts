// Two engines and one limiter on a Redis Cluster of three masters with a replica each, for longer.
import { limitsShared } from '../engine/limits-shared.ts';
import { startCluster } from '../helpers/cluster.ts';

const cluster = await startCluster();
await limitsShared(cluster.url, 10);
