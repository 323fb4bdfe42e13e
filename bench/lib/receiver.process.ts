// The receiver's process: answers every request, read to its end, with 200 and two bytes; those
// with `?take=MS` after so long.
import { type HttpResponse, listen, uws } from '../../src/http/uws.ts';
import { machineMs } from './receiver.ts';

export type ReceiverQuestion = { type: 'reset' } | { type: 'wait'; count: number } | { type: 'read' } | { type: 'answers' };

let count = 0;
let wanted = Number.POSITIVE_INFINITY;
let delays_ms: number[] = [];
/** Group → when each of its tasks was answered. */
let answers_ms = new Map<string, number[]>();

function arrived(): void {
  count++;
  if (count >= wanted) {
    wanted = Number.POSITIVE_INFINITY;
    answer();
  }
}

/** A task of a group was answered. */
function noteTask(group: string): void {
  const answered = answers_ms.get(group);
  if (answered === undefined) answers_ms.set(group, [machineMs()]);
  else answered.push(machineMs());
}

/** What comes after the last task of a group has come in. */
function noteFinish(group: string): void {
  delays_ms.push(machineMs() - (answers_ms.get(group)?.at(-1) ?? Number.NaN));
}

function answer(): void {
  process.send?.({ count, delays_ms });
}

process.on('message', (question: ReceiverQuestion) => {
  if (question.type === 'wait') {
    wanted = question.count;
    if (count < wanted) return;
    wanted = Number.POSITIVE_INFINITY;
  } else if (question.type === 'reset') {
    count = 0;
    delays_ms = [];
    answers_ms = new Map();
  } else if (question.type === 'answers') {
    process.send?.(Object.fromEntries(answers_ms));
    return;
  }
  answer();
});

const app = uws.App().any('/*', (res, req) => {
  // Undefined where a URL has no question mark, whatever the typings say. Most have none, and cost no more than they must.
  const query: string | undefined = req.getQuery();
  const [clock, at] = query === undefined ? [] : query.split('=');
  if (clock === 'due') delays_ms.push(Date.now() - Number(at));
  else if (clock === 'sent') delays_ms.push(machineMs() - Number(at));
  if (clock === 'take') return answerLater(res, Number(at));
  res.onAborted(noop);
  res.onData((_chunk, last) => {
    if (!last) return;
    if (clock === 'finish') noteFinish(at ?? '');
    res.end('ok');
    arrived();
    if (clock === 'task') noteTask(at ?? '');
  });
});

function noop(): void {}

function answerLater(res: HttpResponse, ms: number): void {
  let open = true;
  res.onAborted(() => {
    open = false;
  });
  const end = (): void => {
    if (open) res.cork(() => res.end('ok'));
    arrived();
  };
  res.onData((_chunk, last) => {
    if (last) setTimeout(end, ms);
  });
}

const socket = await listen(app, '127.0.0.1', 0);
if (socket === false) throw new Error('the receiver cannot listen');
process.send?.({ type: 'ready', port: uws.us_socket_local_port(socket) });
