// The fault matrix: every row by its number, and how it is broken here. A row without an entry is not built, and says so.
import type { Fault } from './lib/fault.ts';
import { processKilled } from './rows/01-process-killed.ts';

export const FAULTS: readonly Fault[] = [processKilled];

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
