// The least that a POST takes in Fastify: it reads JSON and answers two words, by a schema, which is its fastest.
import { fastify } from 'fastify';

const app = fastify();
const schema = { response: { 200: { type: 'object', properties: { hello: { type: 'string' } } } } };
app.post('/hello', { schema }, (_request, reply) => {
  reply.send({ hello: 'world' });
});
const address = new URL(await app.listen({ host: '127.0.0.1', port: 0 }));
process.send?.({ type: 'ready', port: Number(address.port) });
