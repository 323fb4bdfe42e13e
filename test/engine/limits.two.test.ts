// Two engines and one limiter, on one Redis.
import { startRedis } from '../helpers/redis.ts';
import { limitsShared } from './limits-shared.ts';

const redis = await startRedis();
await limitsShared(`unix://${redis.path}`, 3);
