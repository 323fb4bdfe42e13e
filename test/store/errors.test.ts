import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isUnavailable } from '../../src/store/errors.ts';
import { startRedis } from '../helpers/redis.ts';

test('what a store in trouble answers is told from a bug', () => {
  const trouble = [
    'LOADING Redis is loading the dataset in memory',
    'BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.',
    'CLUSTERDOWN Hash slot not served',
    'CLUSTERDOWN The cluster is down',
    'TRYAGAIN Multiple keys request during rehashing of slot',
    'ASK 1 127.0.0.1:7000',
    'MOVED 1 127.0.0.1:7000',
    "READONLY You can't write against a read only replica.",
    'MISCONF Errors writing to the AOF file: No space left on device',
    "OOM command not allowed when used memory > 'maxmemory'.",
    'NOREPLICAS Not enough good replicas to write.',
    'Command timed out',
    'Connection is closed.',
    'Reached the max retries per request limit (which is 1). Refer to "maxRetriesPerRequest" option for details.',
    "Stream isn't writeable and enableOfflineQueue options is false",
    "Cluster isn't ready and enableOfflineQueue options is false",
    'Too many Cluster redirections. Last error: Error: Connection is closed.',
    'ERR Script attempted to access a non local key in a cluster node script: x, on @user_script:1.',
  ];
  for (const message of trouble) assert.equal(isUnavailable(new Error(message)), true, message);
  const bugs = [
    'WRONGTYPE Operation against a key',
    'ERR unknown command',
    'NOSCRIPT No matching script.',
    'CROSSSLOT Keys in request',
    'OOMPH',
  ];
  for (const message of bugs) assert.equal(isUnavailable(new Error(message)), false, message);
  for (const thing of [null, undefined, 'LOADING', {}]) assert.equal(isUnavailable(thing), false);
});

test('system errors and causes are looked into', () => {
  const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
  assert.equal(isUnavailable(refused), true);
  assert.equal(isUnavailable(new Error('create failed', { cause: refused })), true);
  assert.equal(isUnavailable(Object.assign(new Error('no file'), { code: 'ENOENT', syscall: 'open' })), false);
  assert.equal(isUnavailable(Object.assign(new Error('no socket'), { code: 'ENOENT', syscall: 'connect' })), true);
  assert.equal(isUnavailable(new AggregateError([refused, refused])), true);
  assert.equal(isUnavailable(new AggregateError([refused, new Error('other')])), false);
});

test('a real redis over its memory limit, also inside a script, is unavailable', async () => {
  const { redis } = await startRedis({ args: ['--maxmemory', '1'] });
  const isOom = (error: unknown): boolean => isUnavailable(error);
  await assert.rejects(redis.set('k', 'v'), isOom);
  await assert.rejects(redis.eval("#!lua\nreturn redis.call('SET', KEYS[1], '1')", 1, 'k'), isOom);
  await assert.rejects(redis.eval("return redis.call('SET', KEYS[1], '1')", 1, 'k'), isOom);
});
