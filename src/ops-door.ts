// Health, readiness and metrics on a port of their own: all that can be asked of a process which serves no API.
import { systemClock } from './base/clock.ts';
import type { Log } from './base/log.ts';
import type { Service } from './base/service.ts';
import type { Config } from './config.ts';
import { Authenticator } from './http/auth.ts';
import { type Ops, type Server, startServer } from './http/serve.ts';
import type { Store } from './store/connect.ts';

export interface Readiness {
  config: Pick<Config, 'roles'>;
  store: Store;
  /** Whether the callback threads run. */
  threadsAlive(): boolean;
  /** null: this process makes no runs of schedules. */
  cron: { alive(): boolean } | null;
  phase: Phase;
}

/** How far a process is: the last of its services to start, and the first to stop. */
export class Phase implements Service {
  readonly name = 'phase';
  now: 'starting' | 'running' | 'stopping' = 'starting';
  readonly #log: Log;

  constructor(log: Log) {
    this.#log = log;
  }

  async start(): Promise<void> {
    this.now = 'running';
    this.#log.info('running');
  }

  async stop(): Promise<void> {
    this.now = 'stopping';
  }
}

/** Somebody who looks at a process now and then. */
const CONNECTIONS_MAX = 64;

/** Redis answers, and the threads of all roles run. */
export async function readiness({ config, store, threadsAlive, cron, phase }: Readiness): ReturnType<Ops['ready']> {
  const redis = await store.client.ping().then(
    () => true,
    () => false,
  );
  const alive = (!config.roles.includes('callbacks') || threadsAlive()) && (cron === null || cron.alive());
  const threads = phase.now !== 'running' ? phase.now : alive ? 'ok' : 'starting';
  return { ok: redis && threads === 'ok', checks: { redis: redis ? 'ok' : 'unreachable', threads } };
}

export function urlOf({ host }: Pick<Config, 'host'>, port: number): string {
  const name = host.includes(':') ? `[${host}]` : host;
  return `http://${name === '0.0.0.0' ? '127.0.0.1' : name}:${port}`;
}

export class OpsDoor implements Service {
  readonly name = 'ops';
  readonly #config: Config;
  readonly #port: number;
  readonly #ops: Ops;
  readonly #log: Log;
  #server: Server | null = null;

  constructor(config: Config, port: number, ops: Ops, log: Log) {
    this.#config = config;
    this.#port = port;
    this.#ops = ops;
    this.#log = log;
  }

  /** Rejects with CannotListen. */
  async start(): Promise<void> {
    const { host, metrics_token } = this.#config;
    const auth = new Authenticator({ lookup: async () => null, clock: systemClock });
    const shared = { host, auth, ops: this.#ops, metrics_token, log: this.#log };
    this.#server = await startServer({ ...shared, port: this.#port, api: null, connections_max: CONNECTIONS_MAX });
    this.#log.info({ url: urlOf(this.#config, this.#server.port) }, 'listening for health and metrics');
  }

  async stop(deadline_ms: number): Promise<void> {
    await this.#server?.stop(deadline_ms);
  }
}
