// The network between one engine and Redis is cut again and again, slow or down, while another engine goes on.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FaultProxy } from '../helpers/proxy.ts';
import { ENDED_MS_MAX, loseLink, startLinked } from './linked.ts';
import { allEnded, audit, createLoad } from './load.ts';
import { freshPath } from './stage.ts';

const linked = await startLinked();
const { proxy, client, receiver, takesPart } = linked;

const FAULTS: [string, (proxy: FaultProxy) => void][] = [
  ['cut', (faulty) => faulty.cut()],
  ['reset', (faulty) => faulty.reset()],
  ['slow', (faulty) => faulty.delay(50)],
];

for (const [name, begin] of FAULTS) {
  test(`links that are ${name} again and again: nothing is lost, and nothing is even called twice`, async () => {
    await takesPart();
    const path = freshPath();
    receiver.at(path, { delay_ms: 20 });
    const load = await createLoad(client, receiver, 20, 200, path);
    for (const heard of [400, 1_200, 2_000, 2_800]) {
      await receiver.heard(path, heard);
      begin(proxy);
    }
    await allEnded(client, load, ENDED_MS_MAX);
    proxy.heal();
    assert.equal((await audit(client, receiver, load)).repeated_calls, 0);
  });
}

test('a link that is down for long: the other engine does what was left behind, and all new work', async (t) => {
  t.diagnostic(await loseLink(linked, (faulty) => faulty.refuse()));
});
