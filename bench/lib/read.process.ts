// What a read is held against: a bare uWebSockets.js app with one HGETALL by ioredis, in a process of its own.
import { Redis } from 'ioredis';
import { listen, uws } from '../../src/http/uws.ts';

const KEY = 'bench:read';
/** As many fields as a batch has. */
const FIELDS = Object.fromEntries(Array.from({ length: 16 }, (_, i) => [`field_${i}`, String(1_763_661_234_000 + i)]));

const redis = new Redis({ path: process.argv[2] ?? '' });
await redis.hset(KEY, FIELDS);

const app = uws.App().get('/*', (res) => {
  let open = true;
  res.onAborted(() => {
    open = false;
  });
  void redis.hgetall(KEY).then((fields) => {
    if (!open) return;
    res.cork(() => res.writeHeader('content-type', 'application/json').end(JSON.stringify(fields)));
  });
});

const socket = await listen(app, '127.0.0.1', 0);
if (socket === false) throw new Error('the bare reader cannot listen');
process.send?.({ type: 'ready', port: uws.us_socket_local_port(socket) });
