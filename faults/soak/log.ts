// The receiver of a soak: millions of calls, so that it keeps of each what the judge asks for, and until he has asked.
import http from 'node:http';
import { after } from 'node:test';
import type { ReceivedCall } from '../../test/helpers/receiver.ts';
import { NOWHERE } from '../lib/scene.ts';

/** Calls take this long, so that some are always under way. */
const WORK_MS = 20;
/** An outcome may wait this long, on a busy machine, before Redis knows it. */
const UNTOLD_MS = 500;
const RECENT_MAX = 50_000;

export class CallLog {
  /** By task, of the batches that were not judged yet. */
  readonly calls = new Map<string, ReceivedCall[]>();
  /** Tasks that were called, each once. */
  tasks = 0;
  /** Calls of what was judged already: none of them should be. */
  late = 0;
  url = '';
  /** Single tasks, and cores of batches. */
  readonly #judged = new Set<string>();
  #recent: ReceivedCall[] = [];

  async listen(): Promise<void> {
    const server = http.createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
      request.resume();
      const call = this.#heard(String(request.headers['webhook-id'] ?? ''));
      response.once('finish', () => {
        call.answered = true;
      });
      setTimeout(() => response.writeHead(200, { 'content-type': 'application/json' }).end('{}'), WORK_MS);
    });
    server.on('clientError', (_error, socket) => socket.destroy());
    await new Promise<void>((resolve) => server.listen({ port: 0, host: '127.0.0.1', backlog: 4_096 }, resolve));
    after(() => {
      server.close();
      server.closeAllConnections();
    });
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    this.url = `http://127.0.0.1:${address.port}/soak`;
  }

  #heard(id: string): ReceivedCall {
    const call: ReceivedCall = { ...NOWHERE, id, at_ms: Date.now(), answered: false };
    this.#recent.push(call);
    if (this.#recent.length > RECENT_MAX) this.#recent = this.#recent.slice(RECENT_MAX / 2);
    if (this.#judged.has(id) || this.#judged.has(coreOf(id))) {
      this.late += 1;
      return call;
    }
    const list = this.calls.get(id);
    if (list !== undefined) list.push(call);
    else this.calls.set(id, [call]);
    if (list === undefined) this.tasks += 1;
    return call;
  }

  /** Calls that may be made again where who made them died now. */
  atRisk(): number {
    const since_ms = Date.now() - UNTOLD_MS;
    return this.#recent.filter((call) => !call.answered || call.at_ms > since_ms).length;
  }

  /** These batches and single tasks are done with. Single tasks share their core with others, which may not be judged yet. */
  forget(ids: readonly string[]): void {
    const cores = new Set<string>();
    for (const id of ids) {
      const single = id.startsWith('task_');
      this.#judged.add(single ? id : coreOf(id));
      if (single) this.calls.delete(id);
      else cores.add(coreOf(id));
    }
    for (const id of this.calls.keys()) if (cores.has(coreOf(id))) this.calls.delete(id);
  }
}

/** What the ids of a batch and its tasks have in common. */
function coreOf(id: string): string {
  return id.split('_')[1] ?? '';
}
