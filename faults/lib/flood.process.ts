// An account that sends as much as it can, in a process of its own that gives way to all others, as its callers are elsewhere: creates batches,
// two requests under way, and receives their calls. Says its first call, then what it created, then what it heard.
import os from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { listen, uws } from '../../src/http/uws.ts';
import type { FloodNews } from './flood.ts';

const TOGETHER = 2;
/** A receiver answers after so long. */
const TAKES_MS = 20;
const LOOK_AGAIN_MS = 50;
/** What comes after the last task was heard would come too often. */
const REST_MS = 1_000;

const [url = '', token = '', batches = '0', each = '0'] = process.argv.slice(2);
os.setPriority(os.constants.priority.PRIORITY_LOW);
const tell = (news: FloodNews): void => void process.send?.(news);
const heard = new Set<string>();
let calls = 0;
let first_ms = 0;
let last_ms = 0;

const app = uws.App().any('/*', (res, req) => {
  heard.add(req.getHeader('webhook-id'));
  last_ms = performance.now();
  if (calls++ === 0) {
    first_ms = last_ms;
    tell({ type: 'begun' });
  }
  let open = true;
  res.onAborted(() => {
    open = false;
  });
  res.onData((_chunk, last) => {
    if (!last) return;
    setTimeout(() => {
      if (open) res.cork(() => res.end());
    }, TAKES_MS);
  });
});
const socket = await listen(app, '127.0.0.1', 0);
if (socket === false) throw new Error('the receiver cannot listen');
process.once('disconnect', () => process.exit());

const target = `http://127.0.0.1:${uws.us_socket_local_port(socket)}/flood`;
const body = JSON.stringify({ tasks: Array.from({ length: Number(each) }, () => ({ target })) });
const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
const ids: string[] = [];
let left = Number(batches);
const create = async (): Promise<void> => {
  while (left-- > 0) {
    const reply = await fetch(`${url}/v1/batches`, { method: 'POST', headers, body });
    const answer = await reply.text();
    if (reply.status !== 201) throw new Error(`a create was answered ${reply.status}: ${answer.slice(0, 300)}`);
    ids.push((JSON.parse(answer) as { id: string }).id);
  }
};
await Promise.all(Array.from({ length: TOGETHER }, create));
tell({ type: 'created', ids });
while (heard.size < ids.length * Number(each)) await sleep(LOOK_AGAIN_MS);
await sleep(REST_MS);
tell({ type: 'heard', tasks: heard.size, calls, per_s: Math.round((calls * 1_000) / (last_ms - first_ms)) });
