import assert from 'node:assert/strict';
import net from 'node:net';
import { describe, it } from 'node:test';
import { BATCH, gate, head, openDoor } from './door.ts';

describe('a drain', () => {
  it('lets what runs end, refuses what is new, and then closes', async () => {
    const working = gate();
    const started = gate();
    const door = await openDoor({
      api: {
        getBatch: async () => {
          started.open();
          await working.opened;
          return { body: { done: true } };
        },
      },
    });
    const [running, idle] = [await door.dial(), await door.dial()];
    running.socket.write(head(`GET /v1/batches/${BATCH}`));
    idle.socket.write(head('GET /healthz'));
    await Promise.all([started.opened, idle.until(/"ok"\}$/)]);
    let stopped = false;
    const stopping = door.server.stop(60_000).then(() => {
      stopped = true;
    });
    idle.socket.write(head('GET /v1/batches'));
    assert.match(await idle.until(/shutting down/), /503 Service Unavailable\r\n(.*\r\n)*Retry-After: 1\r\n/);
    await idle.closed;
    await assert.rejects(door.dial(), /ECONNREFUSED/);
    assert.equal(stopped, false);
    working.open();
    assert.match(await running.until(/\{"done":true\}$/), /200 OK\r\n(.*\r\n)*Connection: close/i);
    await Promise.all([stopping, running.closed]);
  });

  it('shows at once that the process is not ready, but alive', async () => {
    const working = gate();
    const door = await openDoor({ api: { getBatch: () => working.opened.then(() => ({ body: {} })) } });
    const [running, health, ready] = [await door.dial(), await door.dial(), await door.dial()];
    running.socket.write(head(`GET /v1/batches/${BATCH}`));
    for (const each of [health, ready]) {
      each.socket.write(head('GET /healthz'));
      await each.until(/"ok"\}$/);
    }
    const stopping = door.server.stop(60_000);
    health.socket.write(head('GET /healthz'));
    ready.socket.write(head('GET /readyz'));
    assert.match(await health.until(/"ok"\}[\s\S]*"ok"\}$/), /200 OK[\s\S]*200 OK/);
    assert.match(await ready.until(/"unavailable"/), /503 Service Unavailable/);
    working.open();
    await stopping;
  });

  it('cuts off what does not end in time', async () => {
    const started = gate();
    const door = await openDoor({
      api: {
        getBatch: () => {
          started.open();
          return new Promise(() => {});
        },
      },
    });
    const running = await door.dial();
    running.socket.write(head(`GET /v1/batches/${BATCH}`));
    await started.opened;
    await door.server.stop(20);
    await running.closed;
    assert.equal(running.text(), '');
    assert.ok(door.lines.some((line) => line.includes('cut off')));
  });

  it('closes connections that only listen, and is harmless twice', async () => {
    const door = await openDoor();
    const silent = net.connect(door.port, '127.0.0.1');
    const closed = new Promise((resolve) => silent.once('close', resolve));
    await door.ask('GET', '/healthz');
    await Promise.all([door.server.stop(1_000), door.server.stop(1_000)]);
    await closed;
  });
});
