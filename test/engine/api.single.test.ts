// The contract of the API on a single Redis.
import { startRedis } from '../helpers/redis.ts';
import { contract } from './api.ts';
import { openStage } from './stage.ts';

const redis = await startRedis();
contract(await openStage({ redis_url: `unix://${redis.path}` }));
