// Every kind of limiter on a Redis Cluster of three masters with a replica each.
import { WRITES } from '../engine/limiting.ts';
import { limitsOfKinds } from '../engine/limits.ts';
import { openStage } from '../engine/stage.ts';
import { startCluster } from '../helpers/cluster.ts';

const cluster = await startCluster();
limitsOfKinds(await openStage({ ...WRITES, redis_url: cluster.url }));
