// Receivers that answer what no receiver should, a thousand calls at once: each attempt ends by its deadline, memory stays bounded, and
// where a redirect leads is never dialed.
import { createServer, type Socket } from 'node:net';
import { after } from 'node:test';
import { gzipSync } from 'node:zlib';
import { startRedis } from '../../test/helpers/redis.ts';
import { resetSocket } from '../../test/helpers/reset.ts';
import type { Fault } from '../lib/fault.ts';
import { rssMb } from '../lib/memory.ts';
import type { Scene } from '../lib/scene.ts';

const TOGETHER = 1_000;
const TIMEOUT_S = 5;
/** Beyond its deadline, on a busy machine. */
const LATE_MS_MAX = 3_000;
const RSS_MB_MAX = 100;
/** Fewer than make an origin count as broken, whose tasks wait for its probes. */
const TLS_TASKS = 15;
const DRIP_MS = 100;
const LOOK_MS = 100;

const FILLING = Buffer.alloc(64 * 1_024, 'a');
const BOMB = gzipSync(Buffer.alloc(50 * 1_048_576));

/** Writes for ever, as fast as it is taken. */
function pour(socket: Socket, head: string, piece: Buffer | string): void {
  const more = (): void => {
    while (!socket.destroyed && socket.write(piece)) {}
  };
  socket.on('drain', more);
  socket.write(head);
  more();
}

function drip(socket: Socket, head: string, piece: string): void {
  socket.write(head);
  const timer = setInterval(() => socket.write(piece), DRIP_MS);
  socket.on('close', () => clearInterval(timer));
}

type Answer = (socket: Socket, trap: number) => void;
/** Whether it counts as done is told by the status alone, wherever there is one. */
const WAYS: Record<string, Answer> = {
  garbage: (socket) => socket.write('\x00\x01\x02 not HTTP\r\n\r\n'),
  'huge headers': (socket) => pour(socket, 'HTTP/1.1 200 OK\r\n', `x: ${'a'.repeat(60_000)}\r\n`),
  '10 GB': (socket) => pour(socket, 'HTTP/1.1 200 OK\r\ncontent-length: 10000000000\r\n\r\n', FILLING),
  'endless drip of a body': (socket) => drip(socket, 'HTTP/1.1 500 x\r\ncontent-length: 60000\r\n\r\n', 'x'),
  'endless drip of headers': (socket) => drip(socket, 'HTTP/1.1 200 OK\r\n', 'a: b\r\n'),
  bomb: (socket) => {
    socket.write(`HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: ${BOMB.length}\r\n\r\n`);
    socket.write(BOMB);
  },
  'reset after headers': (socket) =>
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n', () => setImmediate(() => resetSocket(socket))),
  '1xx flood': (socket) => pour(socket, '', 'HTTP/1.1 102 Processing\r\n\r\n'),
  redirect: (socket, trap) => socket.write(`HTTP/1.1 307 x\r\nlocation: http://127.0.0.1:${trap}/\r\ncontent-length: 0\r\n\r\n`),
};

export const badReceivers: Fault = {
  row: 18,
  name: '',
  what: 'a thousand calls at once to receivers that answer nonsense',
  async run(scene) {
    const redis_url = `unix://${(await startRedis()).path}`;
    const engine = await scene.engine({ redis_url });
    // Its memory is warm: it has had a thousand calls in flight.
    (await scene.hold(TOGETHER)).release();
    await scene.driver.more(scene.some);
    const before_mb = rssMb(engine.pid);
    let most_mb = before_mb;
    const watch = setInterval(() => {
      most_mb = Math.max(most_mb, rssMb(engine.pid));
    }, LOOK_MS);
    let dialed = 0;
    const trap = await listen((socket) => {
      dialed += 1;
      socket.destroy();
    });
    const took_ms: number[] = [];
    const bad: Promise<number>[] = Object.values(WAYS).map((answer) => badReceiver(scene, took_ms, (socket) => answer(socket, trap)));
    const targets = (await Promise.all(bad)).map((port) => `http://127.0.0.1:${port}/`);
    const tls = `https://127.0.0.1:${await listen((socket) => socket.end('\x16\x03\x01\xff\xffthis is no TLS'))}/`;
    const tasks = (target: string, count: number): object[] =>
      Array.from({ length: count }, () => ({ target, timeout: TIMEOUT_S, retry: { max_retries: 0 } }));
    scene.begins();
    const each = Math.ceil((TOGETHER - TLS_TASKS) / targets.length);
    await Promise.all([...targets.map((target) => scene.driver.batch(tasks(target, each))), scene.driver.batch(tasks(tls, TLS_TASKS))]);
    await scene.driver.more(scene.some);
    await scene.quiet();
    scene.over();
    clearInterval(watch);
    const slowest_ms = Math.max(...took_ms);
    scene.figure('attempt_s_max', slowest_ms / 1_000);
    scene.figure('rss_mb_before', before_mb);
    scene.figure('rss_mb_grown', most_mb - before_mb);
    scene.figure('redirects_followed', dialed);
    // Where both sides share two busy cores some connections are not even taken in time.
    scene.figure('attempts', took_ms.length);
    scene.check(took_ms.length > (each * targets.length) / 2, `${took_ms.length} attempts of ${each * targets.length}`);
    scene.check(slowest_ms < TIMEOUT_S * 1_000 + LATE_MS_MAX, `an attempt took ${slowest_ms} ms`);
    scene.check(most_mb - before_mb < RSS_MB_MAX, `${most_mb - before_mb} MB grown`);
    scene.check(dialed === 0, `${dialed} redirects were followed`);
    const fatal = engine.logs().filter((line) => line.includes('"level":"fatal"'));
    scene.check(fatal.length === 0, `logged ${fatal[0]}`);
    return scene.judge({ duplicates_max: 0, failed_max: TOGETHER + targets.length });
  },
};

/** Writes down each call and how long the caller stayed; then answers as it was told. */
function badReceiver(scene: Scene, took_ms: number[], answer: (socket: Socket) => void): Promise<number> {
  return listen((socket) => {
    let head = '';
    let began_ms = 0;
    socket.on('data', (bytes) => {
      if (began_ms > 0) return;
      head += bytes.toString('latin1');
      const id = /^webhook-id: (\S+)/im.exec(head)?.[1];
      if (id === undefined) return;
      began_ms = performance.now();
      scene.heard(id);
      answer(socket);
    });
    socket.on('close', () => {
      if (began_ms > 0) took_ms.push(performance.now() - began_ms);
    });
  });
}

/** A server of bytes; closed when the row ends. Its port. */
async function listen(onSocket: (socket: Socket) => void): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => sockets.delete(socket));
    onSocket(socket);
  });
  await new Promise<void>((resolve) => server.listen({ port: 0, host: '127.0.0.1', backlog: 4_096 }, resolve));
  after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}
