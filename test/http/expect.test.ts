// Who makes something ready for a request hears of it as soon as its headers are admitted.
import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { until } from '../helpers/redis.ts';
import { ADMIN, head, openDoor, READ } from './door.ts';

const expected: string[] = [];
const door = await openDoor({ expect: { createTask: ({ account, body }) => expected.push(`${account} ${String(body)}`) } });
beforeEach(() => {
  expected.length = 0;
});

describe('a request that is expected', () => {
  test('is told of before its body is there', async () => {
    const one = await door.dial();
    const body = '{"target":"https://example.com/"}';
    one.socket.write(
      head('POST /v1/tasks', { authorization: `Bearer ${ADMIN}`, 'content-type': 'application/json', 'content-length': body.length }),
    );
    await until(() => expected.length > 0, 5_000, 'to be told');
    assert.deepEqual([expected, door.calls.length], [['acme null'], 0]);
    one.socket.write(body);
    await one.until(/HTTP\/1\.1 201/);
    assert.deepEqual([expected.length, door.calls.length], [1, 1]);
    one.socket.destroy();
  });

  test('is not told of where nobody admits it, nor is another one', async () => {
    const body = { target: 'https://example.com/' };
    assert.equal((await door.ask('POST', '/v1/tasks', { token: null, body })).status, 401);
    assert.equal((await door.ask('POST', '/v1/tasks', { token: READ, body })).status, 403);
    assert.equal((await door.ask('GET', '/v1/batches')).status, 200);
    assert.deepEqual(expected, []);
  });
});
