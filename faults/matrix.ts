// The fault matrix: every row by its number, and how it is broken here. A row without an entry is not built, and says so.
import type { Fault } from './lib/fault.ts';
import { processKilled } from './rows/01-process-killed.ts';
import { threadDies } from './rows/02-thread-dies.ts';
import { apiKilled } from './rows/03-api-killed.ts';
import { redisRestart } from './rows/04-redis-restart.ts';
import { machineLost } from './rows/05-machine-lost.ts';
import { behind } from './rows/06-behind.ts';
import { failovers } from './rows/06-failover.ts';
import { masterPaused } from './rows/07-master-paused.ts';
import { redisFrozen } from './rows/08-redis-frozen.ts';
import { linksCut } from './rows/09-link-cut.ts';
import { workerCut } from './rows/10-worker-cut.ts';
import { reshard } from './rows/11-reshard.ts';
import { scriptFlush } from './rows/12-script-flush.ts';
import { diskFull } from './rows/13-disk-full.ts';
import { maxmemory } from './rows/14-maxmemory.ts';
import { clockJumps } from './rows/15-clock-jumps.ts';
import { processClocks } from './rows/16-process-clocks.ts';
import { flood } from './rows/17-flood.ts';
import { slowReceiver } from './rows/17-slow-receiver.ts';
import { badReceivers } from './rows/18-bad-receivers.ts';
import { dns } from './rows/19-dns.ts';
import { connections } from './rows/20-connections.ts';
import { webSockets } from './rows/21-websockets.ts';
import { rollingRestarts } from './rows/22-rolling-restart.ts';
import { poison } from './rows/23-poison.ts';
import { herd } from './rows/24-herd.ts';
import { retryStorm } from './rows/25-retry-storm.ts';
import { downtimes } from './rows/26-downtime.ts';
import { finishRace } from './rows/27-finish-race.ts';
import { slowScript } from './rows/28-slow-script.ts';

export const FAULTS: readonly Fault[] = [
  processKilled,
  threadDies,
  apiKilled,
  redisRestart,
  machineLost,
  ...failovers,
  ...behind,
  masterPaused,
  redisFrozen,
  ...linksCut,
  workerCut,
  reshard,
  scriptFlush,
  diskFull,
  maxmemory,
  clockJumps,
  processClocks,
  slowReceiver,
  flood,
  badReceivers,
  ...dns,
  connections,
  webSockets,
  ...rollingRestarts,
  poison,
  herd,
  retryStorm,
  ...downtimes,
  finishRace,
  slowScript,
];

/** All that the matrix asks for. */
export const ROWS: readonly string[] = [
  'a worker process is killed',
  'a worker thread dies',
  'an API process is killed',
  'Redis restarts',
  'the machine of Redis is lost',
  'failover',
  'a master is paused through a failover',
  'Redis is frozen',
  'the link between the API and Redis is cut',
  'a worker is cut off from Redis',
  'slots are moved under load',
  'the script cache is emptied',
  'the disk of the append-only file is full',
  'Redis at maxmemory',
  "Redis's clock jumps",
  'clocks of processes differ',
  'a slow receiver',
  'a bad receiver',
  'DNS',
  'thousands of connections',
  'WebSockets',
  'a rolling restart',
  'a poisonous task',
  'a thundering herd',
  'a storm of retries',
  'downtime of schedules',
  'the end of a batch is raced for',
  'a script that is too slow',
];
