// A server that starts while Redis cannot serve all of it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { socketSpec } from '../../src/store/address.ts';
import { patiently } from '../../src/store/checks.ts';
import { StoreRefused } from '../../src/store/errors.ts';
import { keys } from '../../src/store/keys.ts';
import { startCluster } from '../helpers/cluster.ts';
import { startEngine } from '../helpers/engine.ts';

test('a server that starts while a Cluster fails over waits for it', async () => {
  const cluster = await startCluster({ node_timeout_ms: 2_000 });
  const first = await startEngine({ redis_url: cluster.url });
  assert.equal(await first.stop(), 0);
  const master = await cluster.masterOf(keys.partition(0));
  await master.kill();
  const engine = await startEngine({ redis_url: cluster.url });
  assert.equal(await engine.stop(), 0);
  await cluster.stop();
});

const SPEC = socketSpec('/nowhere');

test('a step of the start is repeated while the store cannot serve it, and for no other reason', async () => {
  let steps = 0;
  const third = async (): Promise<string> => {
    if (++steps < 3) throw new Error('CLUSTERDOWN The cluster is down');
    return 'done';
  };
  assert.equal(await patiently(SPEC, third), 'done');
  assert.equal(steps, 3);
  await assert.rejects(
    patiently(SPEC, () => Promise.reject(new Error('WRONGTYPE'))),
    /WRONGTYPE/,
  );
  let now_ms = 0;
  const clock = (): number => (now_ms += 400);
  await assert.rejects(
    patiently(SPEC, () => Promise.reject(new Error('Connection is closed.')), 1_000, clock),
    (error) => error instanceof StoreRefused && error.message.endsWith('Connection is closed.'),
  );
  assert.equal(now_ms, 1_600);
});
