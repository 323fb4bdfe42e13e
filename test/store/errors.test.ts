import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changedNothing, isUnavailable, NotReplicated, StageLost, unsure } from '../../src/store/errors.ts';
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
    'MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to no.',
    "READONLY You can't write against a read only replica.",
    'MISCONF Errors writing to the AOF file: No space left on device',
    "OOM command not allowed when used memory > 'maxmemory'.",
    'NOREPLICAS Not enough good replicas to write.',
    'Command timed out',
    'Command aborted due to connection close',
    'None of startup nodes is available',
    'Failed to refresh slots cache.',
    'All sentinels are unreachable. Retrying from scratch after 100ms.',
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

test('what was refused before anything was done is told from what may have been done', () => {
  const refused = [
    'TRYAGAIN slot 1 is on its way to 127.0.0.1:7000; nothing was done',
    'ASK 1 127.0.0.1:7000',
    'MOVED 1 127.0.0.1:7000',
    'CLUSTERDOWN The cluster is down',
    'LOADING Redis is loading the dataset in memory',
    'BUSY Redis is busy running a script.',
    "READONLY You can't write against a read only replica.",
    'MASTERDOWN Link with MASTER is down',
    'MISCONF Errors writing to the AOF file',
    "OOM command not allowed when used memory > 'maxmemory'.",
    'NOREPLICAS Not enough good replicas to write.',
    'ERR Script attempted to access a non local key in a cluster node script: x, on lua/batch/add.lua:1.',
  ];
  for (const message of refused)
    assert.deepEqual([changedNothing(new Error(message)), isUnavailable(new Error(message))], [true, true], message);
  assert.equal(changedNothing(new StageLost()), true);
  const unknown = ['Command timed out', 'Connection is closed.', 'Too many Cluster redirections. Last error: Error: Connection is closed.'];
  for (const message of unknown)
    assert.deepEqual([changedNothing(new Error(message)), isUnavailable(new Error(message))], [false, true], message);
  for (const message of refused)
    assert.deepEqual([changedNothing(unsure(new Error(message))), isUnavailable(unsure(new Error(message)))], [false, true], message);
  const bug = new Error('WRONGTYPE Operation against a key');
  assert.equal(unsure(bug), bug);
  assert.deepEqual([changedNothing(new NotReplicated()), isUnavailable(new NotReplicated())], [false, true]);
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
