// An example of each endpoint, as a command that can be run: docs/api.md and /docs show it, and a test runs each of them.
import type { HandlerName } from '../api/call.ts';
import type { Route } from './routes.ts';

export interface Example {
  query?: string;
  body?: unknown;
  /** Instead of asking by curl. */
  command?: string;
}

const TARGET = 'https://example.com/hooks/invoice';
const DAILY = { cron: '0 9 * * 1-5', timezone: 'Europe/Berlin' };

export const EXAMPLES: Readonly<Record<HandlerName, Example>> = {
  createBatch: {
    body: {
      description: 'Invoices of November',
      tasks: [
        { target: TARGET, payload: { invoice: 1 } },
        { target: TARGET, payload: { invoice: 2 } },
      ],
      notifications: { on_finish: { url: 'https://example.com/hooks/finished' } },
      labels: { month: '2026-11' },
    },
  },
  listBatches: { query: 'status=completed&limit=10' },
  getBatch: {},
  addTasks: { body: { tasks: [{ target: TARGET, payload: { invoice: 3 } }] } },
  listBatchTasks: { query: 'status=failed&limit=10' },
  getBatchResults: { query: 'format=ndjson' },
  cancelBatch: {},
  releaseBatch: {},
  retryBatch: {},
  deleteBatch: {},
  listNotifications: { query: 'limit=10' },
  redeliverNotification: {},
  createStreamTicket: {},
  streamBatch: { command: 'sluice batch watch "$BATCH_ID"   # or any WebSocket client' },
  streamBatchEvents: {},
  createTask: { body: { target: { url: TARGET, method: 'POST' }, payload: { invoice: 4 }, retry: { max_retries: 5 } } },
  getTask: {},
  cancelTask: {},
  retryTask: {},
  createLimiter: { body: { name: 'billing', type: 'window', config: { limit: 100, interval: 60 } } },
  listLimiters: { query: 'limit=10' },
  getLimiter: {},
  updateLimiter: { body: { config: { limit: 200, interval: 60 } } },
  deleteLimiter: {},
  getLimiterUsage: {},
  pauseLimiter: { body: { until: '2099-01-01T00:00:00Z' } },
  resumeLimiter: {},
  resetLimiter: {},
  createSchedule: { body: { ...DAILY, task_template: { target: TARGET, payload: { report: 'daily' } } } },
  listSchedules: { query: 'status=active&limit=10' },
  getSchedule: {},
  patchSchedule: { body: { enabled: false } },
  deleteSchedule: {},
  listScheduleTasks: { query: 'limit=10' },
  previewSchedule: { query: 'limit=5' },
  previewCron: { query: 'cron=0+9+*+*+1-5&timezone=Europe/Berlin&limit=5' },
  triggerSchedule: {},
  getSigningSecret: {},
  rotateSigningSecret: {},
};

/** The command. Ids are in variables of the shell: `batch_id` in BATCH_ID. */
export function sampleOf({ name, method, path }: Pick<Route, 'name' | 'method' | 'path'>): string {
  const { query, body, command } = EXAMPLES[name];
  if (command !== undefined) return command;
  const filled = path.replace(/\{(\w+)\}/g, (_, id: string) => `$${id.toUpperCase()}`);
  const way = method === 'GET' || (method === 'POST' && body !== undefined) ? '' : `-X ${method} `;
  const lines = [
    `curl -s ${way}"$SLUICE_URL${filled}${query === undefined ? '' : `?${query}`}"`,
    `-H "Authorization: Bearer $SLUICE_TOKEN"`,
  ];
  if (body !== undefined) lines.push(`-H 'Content-Type: application/json' -d '${JSON.stringify(body, null, 2).replaceAll('\n', '\n  ')}'`);
  return lines.join(' \\\n  ');
}
