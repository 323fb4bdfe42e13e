// What the contract is tried on: one engine, one receiver, clients of several accounts.
import { after } from 'node:test';
import { api, type Client } from '../helpers/api.ts';
import { type Engine, type EngineOptions, startEngine } from '../helpers/engine.ts';
import { type Receiver, startReceiver } from '../helpers/receiver.ts';

/** Accounts with a fixed token of scope admin; those that count their batches are not shared with other tests. */
const ACCOUNTS = ['acme', 'rival', 'lists', 'atomic', 'rotator', 'stranger'] as const;
export type Account = (typeof ACCOUNTS)[number];

export interface Stage {
  engine: Engine;
  receiver: Receiver;
  client: Readonly<Record<Account, Client>>;
  /** Sends no token. */
  nobody: Client;
  /** A client of `acme` with a token made by the command line. */
  scoped: Readonly<Record<'read' | 'write' | 'admin', Client>>;
}

/** An address that the engine of a stage must not call. */
export const FORBIDDEN_URL = 'http://203.0.113.7/';

export async function openStage(options: EngineOptions = {}): Promise<Stage> {
  const tokens = Object.fromEntries(ACCOUNTS.map((account) => [account, `${account}-token-of-the-tests`]));
  const env = { SLUICE_EGRESS_DENY_CIDRS: '203.0.113.0/24', ...options.env };
  const [engine, receiver] = await Promise.all([startEngine({ ...options, tokens, env }), startReceiver()]);
  after(() => engine.stop());
  const make = async (scope: string): Promise<Client> =>
    api(engine, await engine.cli('token', 'create', '--account', 'acme', '--scope', scope));
  const [read, write, admin] = await Promise.all([make('read'), make('write'), make('admin')]);
  const client = Object.fromEntries(ACCOUNTS.map((account) => [account, api(engine, tokens[account] ?? '')])) as Record<Account, Client>;
  return { engine, receiver, client, nobody: api(engine, null), scoped: { read, write, admin } };
}

let names = 0;

/** A path of the receiver that no other test uses. */
export function freshPath(): string {
  names += 1;
  return `/t${names}`;
}

/** A time that many seconds from now, as a caller writes it. */
export function inSeconds(seconds: number): string {
  return new Date(Date.now() + seconds * 1_000).toISOString();
}

/** So many tasks for one URL. */
export function tasksFor(url: string, count: number, more: object = {}): object[] {
  return Array.from({ length: count }, (_, n) => ({ target: { url, method: 'POST' }, payload: { n }, ...more }));
}

/** No second try. */
export const ONCE = { retry: { max_retries: 0 } } as const;
/** Retries that follow at once. */
export const AT_ONCE = { max_retries: 3, backoff: 'fixed', delay: 0 } as const;
