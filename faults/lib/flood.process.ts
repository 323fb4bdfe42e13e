// An account that floods, and the host that its tasks go to: a process of its own, so that who measures beside it waits for none of its work.
import http from 'node:http';
import { listen, uws } from '../../src/http/uws.ts';

export type FloodQuestion = { type: 'flood'; url: string; token: string; batches: number } | { type: 'read' };

export interface FloodAnswer {
  /** Batches that were taken. */
  ids: string[];
  /** Requests that were not. */
  refused: number;
  calls: number;
  /** Tasks among those. */
  tasks: number;
}

/** Tasks of a batch. */
const EACH = 1_000;
const TOGETHER = 2;
const AGAIN_MS = 200;
/** What the host takes for each call. */
const TAKES_MS = 20;

const agent = new http.Agent({ keepAlive: true });
const said: FloodAnswer = { ids: [], refused: 0, calls: 0, tasks: 0 };
let called = new Set<string>();
/** Which flood it is: what is left of one before is not counted. */
let floods = 0;

function flood({ url, token, batches }: Extract<FloodQuestion, { type: 'flood' }>): void {
  Object.assign(said, { ids: [], refused: 0, calls: 0, tasks: 0 });
  called = new Set();
  const own = ++floods;
  const target = `http://127.0.0.1:${port}/${own}`;
  const body = Buffer.from(JSON.stringify({ tasks: Array.from({ length: EACH }, () => ({ target })) }));
  let left = batches;
  const one = async (): Promise<void> => {
    while (own === floods && left-- > 0) {
      const id = await create(`${url}/v1/batches`, token, body);
      if (id !== null) said.ids.push(id);
      else {
        left += 1;
        said.refused += 1;
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      }
    }
  };
  for (let i = 0; i < TOGETHER; i++) void one();
}

/** null where it was refused. */
function create(url: string, token: string, body: Buffer): Promise<string | null> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'content-length': body.length };
  return new Promise((resolve) => {
    const request = http.request(url, { method: 'POST', agent, headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.once('error', () => resolve(null));
      response.once('end', () => {
        resolve(response.statusCode === 201 ? (JSON.parse(Buffer.concat(chunks).toString()) as { id: string }).id : null);
      });
    });
    request.once('error', () => resolve(null));
    request.end(body);
  });
}

const app = uws.App().any('/*', (res, req) => {
  if (req.getUrl() === `/${floods}`) {
    called.add(req.getHeader('webhook-id'));
    said.calls += 1;
  }
  let open = true;
  res.onAborted(() => {
    open = false;
  });
  res.onData((_chunk, last) => {
    if (last) setTimeout(() => open && res.cork(() => res.end('ok')), TAKES_MS);
  });
});

const socket = await listen(app, '127.0.0.1', 0);
if (socket === false) throw new Error('the host of the flood cannot listen');
const port = uws.us_socket_local_port(socket);

process.on('message', (question: FloodQuestion) => {
  if (question.type === 'flood') flood(question);
  process.send?.({ ...said, tasks: called.size } satisfies FloodAnswer);
});
process.send?.({ type: 'ready', port });
