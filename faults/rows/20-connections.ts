// Fifteen thousand connections from eight addresses that want nothing, send too slowly, or not at all: who works is served beside them,
// memory is bounded, and who does not send goes.
import net from 'node:net';
import { after } from 'node:test';
import { TOKENS } from '../../test/helpers/engine.ts';
import { startRedis, until } from '../../test/helpers/redis.ts';
import type { Fault } from '../lib/fault.ts';
import { rssMb } from '../lib/memory.ts';

const CONNECTIONS = 15_000;
const CONNECTIONS_QUICK = 2_000;
/** An address has some 28,000 ports for connections to one other; so many sources as clients of their own. */
const SOURCES = Array.from({ length: 8 }, (_, i) => `127.0.0.${i + 2}`);
const TOGETHER = 100;
const REQUESTS = 300;
/** 10 bytes a second. */
const DRIP = 'xxxxxxxxxx';
const DRIP_MS = 1_000;
/** A request has 10 s for its head, its body has to grow by as much as is worth waiting for; and some more for all to be closed. */
const GONE_MS_MAX = 60_000;
const RSS_MB_MAX = 250;
const SLOWER_MAX = 5;
const SLOWER_MS_MIN = 100;

const HEAD = `POST /v1/batches HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${TOKENS.acme}\r\ncontent-type: application/json\r\n`;
/** Silent, a head that does not end, and bodies that do not. */
const SAYS = ['', HEAD, `${HEAD}content-length: 100000\r\n\r\n{"tasks":[`, `${HEAD}transfer-encoding: chunked\r\n\r\n5\r\n{"ta`];
/** The first is idle; the others send on. */
const DRIPS = [false, true, true, false];

export const connections: Fault = {
  row: 20,
  name: '',
  what: '15,000 connections: idle, slow heads, bodies of 10 B/s',
  async run(scene) {
    const redis_url = `unix://${(await startRedis()).path}`;
    const engine = await scene.engine({ redis_url });
    const client = scene.client();
    const target = scene.receiver.at('/beside');
    const measured = async (): Promise<number> => {
      const took: number[] = [];
      for (let i = 0; i < REQUESTS; i++) {
        const began_ms = performance.now();
        const { status, json } = await client.ask('POST', '/v1/batches', { body: { tasks: [{ target }, { target }] } });
        took.push(performance.now() - began_ms);
        if (status === 201) scene.driver.promised((json as { id: string }).id, 2);
        else scene.check(false, `a good client was told ${status}`);
      }
      return took.toSorted((a, b) => a - b)[Math.floor(took.length * 0.99)] ?? 0;
    };
    await scene.driver.more(scene.some);
    await measured();
    const alone_ms = await measured();
    const before_mb = rssMb(engine.pid);
    const port = Number(new URL(engine.url).port);
    const open = new Map<net.Socket, number>();
    after(() => {
      for (const socket of open.keys()) socket.destroy();
    });
    const dial = (k: number): Promise<void> =>
      new Promise((resolve) => {
        const localAddress = SOURCES[k % SOURCES.length] ?? '';
        const socket = net.connect({ port, host: '127.0.0.1', localAddress }, () => {
          const way = Math.floor(k / SOURCES.length) % SAYS.length;
          open.set(socket, way);
          socket.write(SAYS[way] ?? '');
          resolve();
        });
        socket.on('error', () => resolve());
        socket.on('close', () => {
          open.delete(socket);
          resolve();
        });
        // So that an end from the other side is seen.
        socket.resume();
      });
    scene.begins();
    const count = scene.quick ? CONNECTIONS_QUICK : CONNECTIONS;
    let most = 0;
    for (let k = 0; k < count; k += TOGETHER) {
      await Promise.all(Array.from({ length: TOGETHER }, (_, i) => dial(k + i)));
      most = Math.max(most, open.size);
    }
    const drip = setInterval(() => {
      for (const [socket, way] of open) if (DRIPS[way] === true && socket.writable) socket.write(DRIP);
    }, DRIP_MS);
    const dialed_ms = performance.now();
    const beside_ms = await measured();
    const grown_mb = rssMb(engine.pid) - before_mb;
    await until(() => open.size < count / 20, GONE_MS_MAX, 'those that do not send to be closed').finally(() => clearInterval(drip));
    scene.over();
    scene.figure('connections_at_once', most);
    scene.figure('gone_after_s', (performance.now() - dialed_ms) / 1_000);
    scene.figure('p99_ms_alone', alone_ms);
    scene.figure('p99_ms_beside', beside_ms);
    scene.figure('rss_mb_grown', grown_mb);
    scene.check(beside_ms < Math.max(SLOWER_MS_MIN, SLOWER_MAX * alone_ms), `p99 ${beside_ms} ms beside them, ${alone_ms} ms alone`);
    scene.check(grown_mb < RSS_MB_MAX, `${grown_mb} MB grown`);
    scene.check(most > count * 0.8, `${most} connections at once`);
    await scene.driver.more(scene.some);
    return scene.judge({ duplicates_max: 0 });
  },
};
