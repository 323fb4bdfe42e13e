// The outbox between two masters of a real Cluster, also while the destination's master dies.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Cluster } from 'ioredis';
import { monotonicMs } from '../../src/base/clock.ts';
import { ServerClocks } from '../../src/delivery/server-clocks.ts';
import { keys } from '../../src/store/keys.ts';
import { readClock, receive, relay, sweep } from '../../src/store/outbox.ts';
import { preparePartitions } from '../../src/store/partition.ts';
import { partitionGrant } from '../../src/store/scripts.gen.ts';
import { startCluster } from '../helpers/cluster.ts';
import { append, laneOf, readHeld, type Send } from '../helpers/outbox.ts';
import { until } from '../helpers/redis.ts';

const PARTITIONS = 4;
const SOURCE = 0;
/** Longer than a failover loses here, and short enough to see the sweep. */
const AFTER_MS = 3_000;
const WAIT_MS_MAX = 30_000;
const REFERENCES = 3_000;
/** Above all that were written. */
const SEQUENCE = 2 ** 52;
const LIFE_MS = 500;
const LONG_MS = 200;

const cluster = await startCluster();
const client = cluster.connect({ slotsRefreshTimeout: 2_000 });
await preparePartitions(client, PARTITIONS);
const destination = await elsewhere();
const LANE = laneOf(destination);

/** A partition that another master serves. */
async function elsewhere(): Promise<number> {
  const home = await cluster.masterOf(keys.partition(SOURCE));
  for (let p = 1; p < PARTITIONS; p++) if ((await cluster.masterOf(keys.partition(p))) !== home) return p;
  return assert.fail('all partitions lie on one master');
}

function sendsOf(verb: 'hand' | 'drop', from: number, to: number): Send[] {
  return Array.from({ length: to - from }, (_, i) => [verb, LANE, refOf(from + i)] as const);
}

function refOf(n: number): string {
  return `ref${String(n).padStart(5, '0')}`;
}

/** Three relayers at once, until nothing waits; what fails is tried again. */
async function relayAll(redis: Cluster): Promise<void> {
  const relayer = async (): Promise<void> => {
    const done = async (): Promise<boolean> => {
      const reply = await relay(redis, SOURCE, { messages_max: 50 }).catch(() => null);
      return reply !== null && !reply.waiting && reply.failed.length === 0;
    };
    await until(done, WAIT_MS_MAX, 'the outbox to be empty');
  };
  await Promise.all([relayer(), relayer(), relayer()]);
}

describe('on a Cluster', { timeout: 90_000 }, () => {
  test('what is written while three relayers work arrives once, though the destination’s master dies', async () => {
    const master = await cluster.masterOf(keys.partition(destination));
    let relaying = Promise.resolve();
    for (let n = 0; n < REFERENCES; n += 100) {
      await append(client, SOURCE, sendsOf('hand', n, n + 100));
      if (n === 300) relaying = relayAll(client);
      if (n === REFERENCES / 2) await master.kill();
    }
    await relaying;
    await relayAll(client);
    assert.notEqual(await cluster.masterOf(keys.partition(destination)), master, 'a replica serves it now');

    // Every one is asked about once; what the new master does not know of comes again.
    let confirmed = 0;
    await until(
      async () => {
        const swept = await sweep(client, SOURCE, { after_ms: AFTER_MS });
        if (swept.resent > 0) await relayAll(client);
        confirmed += swept.confirmed;
        return confirmed >= REFERENCES;
      },
      WAIT_MS_MAX,
      'all references to be confirmed',
    );
    const { lanes } = await readHeld(client, destination);
    assert.deepEqual(
      lanes[LANE]?.sort(),
      Array.from({ length: REFERENCES }, (_, n) => refOf(n)),
    );
  });

  test('nothing stays behind once all are over', async () => {
    for (let n = 0; n < REFERENCES; n += 500) await append(client, SOURCE, sendsOf('drop', n, n + 500));
    await relayAll(client);
    // The limiter has no record, so what waits is let go of at the next looks.
    for (let more = 1; more === 1; ) {
      [, , more] = await partitionGrant.call(client, { meta: keys.partition(destination) }, { lanes_max: 16, tasks_max: 500, ahead_us: 0 });
    }
    const empty = async (): Promise<boolean> => {
      await sweep(client, SOURCE, { after_ms: AFTER_MS });
      return (await client.exists(keys.away(SOURCE))) === 0;
    };
    await until(empty, WAIT_MS_MAX, 'everything to be forgotten');
    const [from, to] = [await readHeld(client, SOURCE), await readHeld(client, destination)];
    assert.deepEqual([from.outbox, from.away, from.since, to.lanes], [{}, {}, {}, {}]);
  });

  test('a grant that was long on its way to another master lives no longer for it', async () => {
    let asked = 0;
    const clocks = new ServerClocks((partition) => {
      asked += 1;
      return readClock(client, partition);
    });
    const receiveGrant = async (sequence: number, granted_ms: number): Promise<unknown> => {
      const entry = `nobody,0,0,0,0,30,${granted_ms};${LANE},w,1,${granted_ms},0`;
      const message = `${sequence} grant ${LANE} 1 ${granted_ms} ${LIFE_MS} 0 f:acme:o1|${entry}`;
      const slice = { destination, messages: [message], read_ms: monotonicMs(), source_ms: granted_ms, unsure_ms: 0 };
      return receive(client, SOURCE, slice, undefined, clocks);
    };
    await receiveGrant(SEQUENCE, Date.now());
    assert.ok(asked >= 1, 'nobody asked for the clock');
    const master = await cluster.masterOf(keys.partition(destination));
    const granted_ms = Date.now();
    master.freeze();
    const received = receiveGrant(SEQUENCE + 1, granted_ms);
    await until(async () => Date.now() > granted_ms + LONG_MS, WAIT_MS_MAX, 'the way to take long');
    master.thaw();
    await received;
    const granted = await client.zrange(`${keys.partition(destination).slice(0, -1)}granted`, '0', '-1', 'WITHSCORES');
    const at = granted.findIndex((member) => member.includes(`,${granted_ms};`));
    const lives_ms = Number(granted[at + 1]) - granted_ms;
    assert.ok(lives_ms > 0 && lives_ms < LIFE_MS + LONG_MS / 2, `it lives ${lives_ms} ms`);
  });
});
