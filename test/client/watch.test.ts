// Following a batch against real engines: over both kinds of stream, across an engine's death, and what is refused.
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import WebSocket from 'ws';
import { freePort } from '../../bench/lib/ports.ts';
import { createClient, type Frame, SluiceError, type WatchOptions } from '../../src/client/index.ts';
import { type Engine, startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis } from '../helpers/redis.ts';

const [engine, receiver, redis] = await Promise.all([startEngine(), startReceiver(), startRedis()]);
const client = createClient({ base_url: engine.url, token: TOKENS.acme });

/** Node 20 has no WebSocket of its own, as browsers and later versions do. */
const given: unknown = Reflect.get(globalThis, 'WebSocket');
const KINDS = { 'a WebSocket': WebSocket, 'Server-Sent Events': undefined } as const;
after(() => Reflect.set(globalThis, 'WebSocket', given));

async function watched(id: string, onFrame: (frame: Frame) => unknown, options: WatchOptions = {}, by = client): Promise<Frame[]> {
  const frames: Frame[] = [];
  for await (const frame of by.watch(id, options)) {
    frames.push(frame);
    await onFrame(frame);
  }
  return frames;
}

for (const [kind, value] of Object.entries(KINDS)) {
  const use = (): boolean => Reflect.set(globalThis, 'WebSocket', value);

  test(`over ${kind} a batch is followed from its snapshot to its end, and each task is told`, async () => {
    use();
    const path = `/${value === undefined ? 'events' : 'socket'}`;
    const target = receiver.at(path, { hold: true });
    const { id } = await client.createBatch({ tasks: [1, 2, 3].map((n) => ({ target, payload: { n } })) });
    const frames = await watched(id, ({ type }) => type === 'snapshot' && receiver.release(path, false), { tasks: true });
    const types = frames.map(({ type }) => type);
    assert.deepEqual([types[0], types.at(-1), types.filter((type) => type === 'task').length], ['snapshot', 'finished', 3]);
    const batch = await client.getBatch(id);
    const last = frames.at(-1);
    assert.ok(last?.type === 'finished');
    assert.deepEqual([last.status, last.stats, last.timestamp], ['completed', batch.stats, batch.updated_at]);
  });

  test(`over ${kind} an engine that dies and comes back is followed on, and the rest is told`, async () => {
    use();
    const env = { SLUICE_PORT: String(await freePort()) };
    const start = (): Promise<Engine> => startEngine({ redis_url: `unix://${redis.path}`, env });
    const mortal = await start();
    const own = createClient({ base_url: mortal.url, token: TOKENS.acme });
    const execute_after = new Date(Date.now() + 3_600_000).toISOString();
    const { id } = await own.createBatch({ tasks: [{ target: receiver.url, execute_after }] });
    const open: boolean[] = [];
    let snapshots = 0;
    const onFrame = async ({ type }: Frame): Promise<void> => {
      if (type !== 'snapshot') return;
      snapshots += 1;
      if (snapshots === 1) {
        await mortal.kill9();
        await start();
      } else await own.cancelBatch(id);
    };
    const frames = await watched(id, onFrame, { onConnection: (now) => void open.push(now) }, own);
    assert.deepEqual(open, [true, false, true, false]);
    const last = frames.at(-1);
    assert.ok(last?.type === 'finished');
    assert.equal(last.stats.cancelled, 1);
  });

  test(`over ${kind} what is refused for good is an error, and who stops is let go`, async () => {
    use();
    await assert.rejects(
      watched('batch_01234567890123456z', () => {}),
      (error) => error instanceof SluiceError && error.status === 404,
    );
    const execute_after = new Date(Date.now() + 3_600_000).toISOString();
    const { id } = await client.createBatch({ tasks: [{ target: receiver.url, execute_after }] });
    const stop = new AbortController();
    const frames = await watched(id, () => stop.abort(), { signal: stop.signal });
    assert.equal(frames.length, 1);
    for await (const _ of client.watch(id)) break;
    await client.cancelBatch(id);
  });
}
