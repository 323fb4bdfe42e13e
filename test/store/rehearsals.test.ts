// What is rehearsed changes nothing, whoever is told of it takes nothing, and it goes the way of what comes in earnest.
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { createLog } from '../../src/base/log.ts';
import { socketSpec } from '../../src/store/address.ts';
import { readPushed } from '../../src/store/claimed.ts';
import { keys } from '../../src/store/keys.ts';
import { turn } from '../../src/store/partition.ts';
import { openRehearsals, type Rehearsals } from '../../src/store/rehearsals.ts';
import { taskCreate } from '../../src/store/scripts.gen.ts';
import { until } from '../helpers/redis.ts';
import { ACCOUNT, SETTINGS, startRig } from '../helpers/rig.ts';

const rig = await startRig();
const listener = rig.redis.duplicate();
const heard: { channel: string; message: string }[] = [];
listener.on('smessageBuffer', (name: Buffer, message: Buffer) =>
  heard.push({ channel: name.toString(), message: message.toString('latin1') }),
);
await listener.ssubscribe(keys.handed(0), keys.bell(0));
let rehearsals: Rehearsals;
before(async () => {
  rehearsals = openRehearsals(socketSpec(rig.redis.options.path ?? ''), { role: 'test', log: createLog({ level: 'silent' }) });
  // The script is known to the server.
  await rig.single();
  await untilOneArrives();
});
after(() => {
  rehearsals.close();
  rig.redis.disconnect();
  listener.disconnect();
});
beforeEach(async () => {
  await rig.reset();
  heard.length = 0;
});

/** Calls of scripts, those that failed among them. */
const creates = (): Promise<number> => rig.scriptCalls();

/** Until the connection is there, and silent. */
function untilOneArrives(): Promise<void> {
  const arrives = async (): Promise<boolean> => {
    const calls = await creates();
    rehearsals.createTask(0, ACCOUNT);
    return (await creates()) > calls;
  };
  return until(arrives, 5_000, 'a rehearsal');
}

/** All that Redis holds. */
async function contents(): Promise<string[]> {
  const names = (await rig.redis.keys('*')).sort();
  return Promise.all(names.map(async (name) => `${name} ${(await rig.redis.dumpBuffer(name)).toString('base64')}`));
}

async function rehearse(): Promise<void> {
  const calls = await creates();
  rehearsals.createTask(0, ACCOUNT);
  await until(async () => (await creates()) > calls, 5_000, 'the rehearsal');
}

async function errors(): Promise<number> {
  return Number(/total_error_replies:(\d+)/.exec(await rig.redis.info('stats'))?.[1]);
}

async function offer(holder: string): Promise<void> {
  await turn(rig.redis, 0, { ...SETTINGS, holder }, { settlements: [], tick: false, claim: null, offer: { does: 'make', call_no: 8 } });
}

describe('a rehearsal of a single task', () => {
  for (const [what, prepare] of [
    ['where nothing is', async () => {}],
    ['where a tray is open', () => rig.single()],
    ['where somebody is free', () => offer('h1')],
    ['where a tray is open and somebody is free', () => rig.single().then(() => offer('h1'))],
  ] as const) {
    test(`changes nothing and does not fail ${what}`, async () => {
      await prepare();
      const before = await contents();
      const failed = await errors();
      await rehearse();
      assert.deepEqual(await contents(), before);
      assert.equal(await errors(), failed);
    });
  }

  test('is heard of by who is free, as nothing of his, and rings no bell', async () => {
    await offer('h1');
    await rehearse();
    await until(() => heard.length > 0, 5_000, 'a message');
    assert.deepEqual(
      heard.map(({ channel }) => channel),
      [keys.handed(0)],
    );
    const { holder, call_no, task } = readPushed(heard[0]?.message ?? '');
    assert.deepEqual([holder, call_no, task.account_id], ['-', 8, ACCOUNT]);
    // His offer stands: the next task in earnest is his.
    heard.length = 0;
    await rig.single();
    await until(() => heard.length > 0, 5_000, 'the task');
    assert.equal(readPushed(heard[0]?.message ?? '').holder, 'h1');
  });

  test('tells nobody where nobody is free', async () => {
    await rehearse();
    await rig.redis.spublish(keys.bell(0), 'end');
    await until(() => heard.length > 0, 5_000, 'the end');
    assert.deepEqual(
      heard.map(({ message }) => message),
      ['end'],
    );
  });

  test('goes on after the connection was cut', async () => {
    const ids = String(await rig.redis.client('LIST'))
      .split('\n')
      .filter((line) => line.includes('name=sluice-test-rehearsals'));
    assert.equal(ids.length, 1);
    await rig.redis.client('KILL', 'ID', /id=(\d+)/.exec(ids[0] ?? '')?.[1] ?? '');
    await untilOneArrives();
  });

  test('is the script that is called in earnest', () => {
    const call = taskCreate.bytes(
      { meta: keys.partition(0) },
      {
        ...{ core: 'c', account: 'a', op: '', total: 1, place: 0, idem_key: '', idem_print: '', idem_extra: Buffer.alloc(0) },
        parts: [Buffer.from('ü\r\n'), 7],
      },
    );
    const words = ['EVALSHA', taskCreate.sha, '1', keys.partition(0), 'ü\r\n', '7'];
    const begin = words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join('');
    assert.ok(call.toString().includes(begin), call.toString());
    assert.match(call.toString(), /^\*\d+\r\n\$7\r\nEVALSHA\r\n/);
  });
});
