// The receiver of a limiter's tasks: a process that has nothing else to do, so that it hears them when they come. Says its port, and then of
// each call its task and its time.
import http from 'node:http';
import type { AddressInfo } from 'node:net';

const server = http.createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
  process.send?.({ id: String(request.headers['webhook-id']), at_ms: Date.now() });
  request.resume().once('end', () => response.end());
});
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }));
process.once('disconnect', () => process.exit());
