// An example of what is called: answers each call with 200, prints it, and checks its signature where it knows the secret.
// In a program of your own: `import { verifyWebhook } from 'sluice/client'`.
import { createServer } from 'node:http';

const secret = process.env.RECEIVER_SECRET ?? '';
const { verifyWebhook } = await import(process.env.RECEIVER_CLIENT ?? '/app/dist/client/index.js');
const BODY_BYTES_MAX = 1_048_576;

const server = createServer(async (request, response) => {
  const parts = [];
  let bytes = 0;
  for await (const part of request) {
    bytes += part.length;
    if (bytes > BODY_BYTES_MAX) return void response.writeHead(413).end();
    parts.push(part);
  }
  const body = Buffer.concat(parts);
  const right = secret === '' ? null : await verifyWebhook(secret, request.headers, body);
  console.log(
    JSON.stringify({ id: request.headers['webhook-id'], url: request.url, signature: right, body: body.toString().slice(0, 200) }),
  );
  // 401 is tried again: the secret may just have been rotated.
  response.writeHead(right === false ? 401 : 200, { 'Content-Type': 'application/json' }).end('{"ok":true}');
});
server.listen(Number(process.env.RECEIVER_PORT ?? 8000), () => console.log(JSON.stringify({ listening: server.address().port })));
process.once('SIGTERM', () => server.close().closeIdleConnections());
