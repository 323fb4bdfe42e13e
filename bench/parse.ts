// How fast a body is read and checked: MB/s and microseconds for each task, beside JSON.parse of the same bytes.
//   node --import tsx bench/parse.ts
import { checkBatchCreate } from '../src/schema/batch-check.ts';
import { BODY_JSON, parseJson } from '../src/schema/json.ts';

const TASKS = 10_000;
const ROUNDS = 25;
const NOW_MS = Date.UTC(2026, 0, 1);

const BODIES: Record<string, Buffer> = {
  'task of 250 bytes, 10 targets': body((i) => ({
    target: { url: `https://api-${i % 10}.example.com/hooks/orders`, method: 'POST', headers: { authorization: 'Bearer abcdef' } },
    payload: { order_id: i, total: 12.5, items: [1, 2, 3] },
    rate_limiter: 'partner-api',
    timeout: 30,
    idempotency_key: `order-${i}`,
  })),
  'task with every field': body((i) => ({
    target: { url: `https://example.com/users/${i}/notify`, method: 'PUT' },
    payload: { a: i },
    rate_limiter: 'partner-api',
    points_cost: 5,
    execute_after: '2026-06-01T09:00:00.000Z',
    valid_until: '2026-06-01T19:00:00.000+02:00',
    timeout: 30,
    retry: { max_retries: 5, backoff: 'linear', delay: 2, max_delay: 60 },
    idempotency_key: `order-${i}`,
  })),
  'task of 60 bytes': body((i) => ({ target: `https://example.com/${i}`, payload: i })),
  'payload of 4 KB, many fields': body(() => ({
    target: { url: 'https://example.com/hook', method: 'POST' },
    payload: Object.fromEntries(Array.from({ length: 100 }, (_, k) => [`field_${k}`, { a: k, b: 'some text here', c: null }])),
  })),
  'payload of 8 KB, one text': body(() => ({ target: { url: 'https://example.com/hook', method: 'POST' }, payload: 'x'.repeat(8000) })),
};

function body(task: (index: number) => unknown): Buffer {
  return Buffer.from(JSON.stringify({ description: 'bench', tasks: Array.from({ length: TASKS }, (_, i) => task(i)) }));
}

/** Best of the rounds, in milliseconds: the least disturbed one. */
function best(run: () => unknown): number {
  let least = Number.POSITIVE_INFINITY;
  for (let i = 0; i < ROUNDS; i++) {
    const from = performance.now();
    run();
    least = Math.min(least, performance.now() - from);
  }
  return least;
}

function line(what: string, ms: number, bytes: number): void {
  console.log(
    `  ${what.padEnd(24)} ${(bytes / 1e3 / ms).toFixed(0).padStart(6)} MB/s  ${((ms * 1e3) / TASKS).toFixed(3).padStart(7)} us/task`,
  );
}

for (const [name, bytes] of Object.entries(BODIES)) {
  console.log(`${name} (${(bytes.length / TASKS).toFixed(0)} bytes each)`);
  line(
    'JSON.parse',
    best(() => JSON.parse(bytes.toString('utf8'))),
    bytes.length,
  );
  line(
    'parseJson',
    best(() => parseJson(bytes, BODY_JSON)),
    bytes.length,
  );
  const read = parseJson(bytes, BODY_JSON);
  const value = read.ok ? read.value : null;
  line(
    'schema and rules',
    best(() => checkBatchCreate(value, NOW_MS)),
    bytes.length,
  );
}
