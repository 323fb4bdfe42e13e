// What operators and machines ask: health, readiness, metrics, the OpenAPI document. No account, no token but that of the metrics.
import { ApiError } from '../base/errors.ts';
import { type Reply, refusal } from './answer.ts';
import { isBearer } from './auth.ts';

export interface Ops {
  /** Whether requests can be served, with one word for each thing that was looked at. */
  ready(): Promise<{ ok: boolean; checks: Record<string, string> }>;
  /** In the text format of Prometheus. */
  metrics(): Promise<string>;
}

export interface OpsHost {
  readonly ops: Ops;
  readonly metrics_token: string | null;
  readonly openapi: string;
  readonly draining: boolean;
}

export interface OpsRoute {
  name: string;
  path: string;
  run(host: OpsHost, authorization: string): Promise<Reply>;
}

const PROMETHEUS_TEXT = 'text/plain; version=0.0.4; charset=utf-8';

export const OPS_ROUTES: readonly OpsRoute[] = [
  { name: 'healthz', path: '/healthz', run: async () => ({ status: 200, body: '{"status":"ok"}' }) },
  { name: 'readyz', path: '/readyz', run: readyz },
  { name: 'metrics', path: '/metrics', run: metrics },
  { name: 'openapi', path: '/openapi.json', run: async (host) => ({ status: 200, body: host.openapi }) },
];

async function readyz(host: OpsHost): Promise<Reply> {
  if (host.draining) return refusal(draining());
  const { ok, checks } = await host.ops.ready();
  if (ok) return { status: 200, body: JSON.stringify({ status: 'ok', checks }) };
  return refusal(new ApiError('unavailable', { checks }, { message: 'The service is not ready.', retry_after_s: 1 }));
}

async function metrics(host: OpsHost, authorization: string): Promise<Reply> {
  if (host.metrics_token !== null && !isBearer(authorization, host.metrics_token)) throw new ApiError('unauthorized');
  return { status: 200, body: await host.ops.metrics(), type: PROMETHEUS_TEXT };
}

/** What every request but a look at its health is told while the process drains. */
export function draining(): ApiError {
  return new ApiError('unavailable', {}, { message: 'This process is shutting down.', retry_after_s: 1 });
}
