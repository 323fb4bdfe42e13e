// Ten thousand connections that want nothing, send too slowly, or read nothing: who works is served as before, memory stays bounded,
// and who does not send goes.
import assert from 'node:assert/strict';
import net from 'node:net';
import { after, test } from 'node:test';
import { tasksFor } from '../engine/stage.ts';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { rssMb } from '../helpers/memory.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis, until } from '../helpers/redis.ts';

const CONNECTIONS = 10_000;
const TOGETHER = 200;
const REQUESTS = 400;
/** Against what it takes without them, and on a machine where both sides share two cores. */
const SLOWER_MAX = 5;
const SLOWER_MS_MIN = 100;
const RSS_MB_MAX = 250;
/** What announced a request has 10 s for its head; some more for all to be closed. */
const GONE_MS_MAX = 60_000;

const HEAD = `POST /v1/batches HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${TOKENS.acme}\r\ncontent-type: application/json\r\n`;
/** What a connection says before it falls silent, or goes on a byte at a time. */
const SAYS: readonly string[] = [
  '',
  HEAD,
  `${HEAD}content-length: 100000\r\n\r\n{"tasks":[`,
  `${HEAD}transfer-encoding: chunked\r\n\r\n5\r\n{"ta`,
];

test('ten thousand connections that want nothing leave those who work alone', async (t) => {
  const redis = await startRedis();
  const receiver = await startReceiver();
  const engine = await startEngine({ redis_url: `unix://${redis.path}` });
  const client = api(engine, TOKENS.acme);
  const body = { tasks: tasksFor(receiver.at('/t'), 2) };
  const measured = async (): Promise<number> => {
    const took: number[] = [];
    for (let i = 0; i < REQUESTS; i++) {
      const began_ms = performance.now();
      assert.equal((await client.ask('POST', '/v1/batches', { body })).status, 201);
      took.push(performance.now() - began_ms);
    }
    return took.toSorted((a, b) => a - b)[Math.floor(took.length * 0.99)] ?? 0;
  };

  await measured();
  const alone_ms = await measured();
  const before_mb = rssMb(engine.pid);
  const port = Number(new URL(engine.url).port);
  const open = new Set<net.Socket>();
  after(() => {
    for (const socket of open) socket.destroy();
  });
  const dial = (k: number): Promise<void> =>
    new Promise((resolve) => {
      const socket = net.connect(port, '127.0.0.1', () => {
        open.add(socket);
        socket.write(SAYS[k % SAYS.length] ?? '');
        resolve();
      });
      socket.on('error', () => resolve());
      socket.on('close', () => {
        open.delete(socket);
        resolve();
      });
    });
  for (let k = 0; k < CONNECTIONS; k += TOGETHER) await Promise.all(Array.from({ length: TOGETHER }, (_, i) => dial(k + i)));
  const most = open.size;
  // A byte every now and then is no progress.
  const drip = setInterval(() => {
    for (const socket of open) if (socket.writable) socket.write('x');
  }, 3_000);
  const beside_ms = await measured();
  const grown_mb = rssMb(engine.pid) - before_mb;
  assert.ok(most > CONNECTIONS * 0.8, `${most} connections at once`);
  assert.ok(beside_ms < Math.max(SLOWER_MS_MIN, SLOWER_MAX * alone_ms), `p99 ${beside_ms} ms beside ${alone_ms} ms`);
  assert.ok(grown_mb < RSS_MB_MAX, `${grown_mb} MB grown`);
  await until(() => open.size < CONNECTIONS / 20, GONE_MS_MAX, 'those that do not send to be closed').finally(() => clearInterval(drip));
  await measured();
  assert.equal((await fetch(`${engine.url}/readyz`)).status, 200);
  t.diagnostic(`${most} at once; p99 ${alone_ms.toFixed(1)} ms alone, ${beside_ms.toFixed(1)} ms beside them; ${Math.round(grown_mb)} MB`);
});
