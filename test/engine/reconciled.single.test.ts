// A reconciler at work, on a single Redis.
import { startRedis } from '../helpers/redis.ts';
import { OFTEN, reconciles } from './reconciled.ts';
import { openStage } from './stage.ts';

const { path, redis } = await startRedis();
reconciles(await openStage({ ...OFTEN, redis_url: `unix://${path}` }), redis);
