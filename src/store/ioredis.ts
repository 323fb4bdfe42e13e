// ioredis, loaded as what it is. Where CommonJS is imported, Node reads each of its files for the names that it exports before it runs any:
// of a thread's start that took 60 ms, and five threads have it.
import { createRequire } from 'node:module';

const ioredis = createRequire(import.meta.url)('ioredis') as typeof import('ioredis');

export const { Cluster, Redis } = ioredis;
export type Cluster = import('ioredis').Cluster;
export type Redis = import('ioredis').Redis;
