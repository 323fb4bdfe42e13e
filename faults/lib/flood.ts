// Another account's flood, and what is known of it.
import { fork } from 'node:child_process';
import { EventEmitter, once } from 'node:events';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type Engine, TOKENS } from '../../test/helpers/engine.ts';

/** What the flood's process says, in this order. */
export type FloodNews = { type: 'begun' } | ({ type: 'created' } & Created) | ({ type: 'heard' } & Heard);

interface Created {
  ids: string[];
}

interface Heard {
  tasks: number;
  calls: number;
  /** Calls a second, from the first to the last. */
  per_s: number;
}

export interface Flood {
  /** Resolves when all was created. */
  created: Promise<Created>;
  /** Resolves when each of its tasks was called, and a second more has passed. */
  heard: Promise<Heard>;
  /** Whether tasks of it may still be waiting. */
  on(): boolean;
}

const PROCESS = fileURLToPath(new URL('./flood.process.ts', import.meta.url));

/** So many batches of so many tasks each; resolves with the first call. */
export async function startFlood(engine: Engine, batches: number, each: number): Promise<Flood> {
  const flood = fork(PROCESS, [engine.url, TOKENS.rival, String(batches), String(each)], { execArgv: ['--import', 'tsx'] });
  after(() => flood.kill());
  const said = new EventEmitter();
  flood.on('message', (news: FloodNews) => said.emit(news.type, news));
  flood.once('exit', () => said.emit('error', new Error('the process of the flood died')));
  const news = async <T>(type: FloodNews['type']): Promise<T> => ((await once(said, type)) as [T])[0];
  let on = true;
  const created = news<Created>('created');
  const heard = news<Heard>('heard').finally(() => {
    on = false;
  });
  await news('begun');
  return { created, heard, on: () => on };
}
