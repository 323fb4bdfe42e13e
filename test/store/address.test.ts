import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describe, parseRedisUrl } from '../../src/store/address.ts';

const NO_LOGIN = { username: null, password: null, tls: false };

test('every form of address is read', () => {
  assert.deepEqual(parseRedisUrl('redis://cache.example'), {
    kind: 'single',
    path: null,
    host: 'cache.example',
    port: 6379,
    db: 0,
    ...NO_LOGIN,
  });
  assert.deepEqual(parseRedisUrl('rediss://me:p%40ss@[::1]:7000/3'), {
    kind: 'single',
    path: null,
    host: '::1',
    port: 7000,
    db: 3,
    username: 'me',
    password: 'p@ss',
    tls: true,
  });
  assert.deepEqual(parseRedisUrl('unix:///run/redis.sock?db=2'), {
    kind: 'single',
    path: '/run/redis.sock',
    host: '',
    port: 0,
    db: 2,
    ...NO_LOGIN,
  });
  assert.deepEqual(parseRedisUrl('redis+sentinel://:pw@s1:26380,s2/main?sentinel_password=q'), {
    kind: 'sentinel',
    sentinels: [
      { host: 's1', port: 26380 },
      { host: 's2', port: 26379 },
    ],
    master: 'main',
    db: 0,
    sentinel_username: null,
    sentinel_password: 'q',
    username: null,
    password: 'pw',
    tls: false,
  });
  assert.deepEqual(parseRedisUrl('redis+cluster://a:1,b:2'), {
    kind: 'cluster',
    nodes: [
      { host: 'a', port: 1 },
      { host: 'b', port: 2 },
    ],
    ...NO_LOGIN,
  });
  assert.equal(parseRedisUrl('rediss+cluster://a:1').tls, true);
});

test('a wrong address is refused without repeating its password', () => {
  const wrong = [
    'http://x',
    'localhost:6379',
    'redis://',
    'redis://h:0',
    'redis://h:99999',
    'redis://a,b',
    'redis://h/x',
    'redis://h/1/2',
    'redis://h?db=1',
    'redis+cluster://a:1/0',
    'redis+cluster://a:1,',
    'redis+sentinel://a:1',
    'unix://host/x',
    'unix://',
    'redis://u:%zz@h',
    'redis://u:hunter2@h:x',
  ];
  for (const url of wrong) {
    assert.throws(
      () => parseRedisUrl(url),
      (error: unknown) => error instanceof Error && !error.message.includes('hunter2'),
      url,
    );
  }
});

test('a description names the place and no login', () => {
  assert.equal(describe(parseRedisUrl('redis://me:hunter2@h:1')), 'the Redis at h:1');
  assert.equal(describe(parseRedisUrl('redis+cluster://me:hunter2@a:1,b:2')), 'the Redis Cluster at a:1,b:2');
  assert.equal(describe(parseRedisUrl('redis+sentinel://me:hunter2@a:1/m')), 'the master "m" of the Sentinels at a:1');
});
