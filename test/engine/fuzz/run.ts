// Random requests against a running engine, for so long: it never fails at one, never answers what its OpenAPI document does not
// know, and is afterwards what it was before.
//
// Each request follows from the seed and its number alone, but for ids: FUZZ_SEED and FUZZ_ONLY=<number> make one of them again.
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { endsWithin } from '../../../src/base/timing.ts';
import { api, type Client, conformance } from '../../helpers/api.ts';
import type { Engine } from '../../helpers/engine.ts';
import { rssMb } from '../../helpers/memory.ts';
import type { Receiver } from '../../helpers/receiver.ts';
import { inSeconds } from '../stage.ts';
import { brokenBytes, sendBytes, sendWhole } from './bytes.ts';
import { Dice } from './dice.ts';
import { type Document, type Fuzzed, type Pool, requestMaker } from './requests.ts';
import type { Known } from './values.ts';

/** Requests under way, and after how many the resources are made anew: fuzzing deletes some. */
const TOGETHER = 12;
const POOL_EVERY = 150;
/** Of the requests so many are broken as bytes. */
const BROKEN = 0.2;
/** The process may hold so much more than after the first third of the time: its heap grows before it is collected. */
const RSS_GROWN_MB_MAX = 160;
/** Longer than any request may take, on a machine that is busy. */
const REQUEST_MS_MAX = 30_000;
/** What the HTTP parser itself says of bytes that are no request. */
const PARSER_STATUS = new Set([400, 408, 413, 431, 505]);
const TOKENS = { fuzz: 'fuzz-token-of-the-tests-01', other: 'other-token-of-the-tests-02' } as const;
export const FUZZ_OPTIONS = { tokens: TOKENS } as const;

export interface Fuzz {
  engine: Engine;
  receiver: Receiver;
  ms: number;
}

export async function fuzz(t: TestContext, { engine, receiver, ms }: Fuzz): Promise<void> {
  const seed = Number(process.env['FUZZ_SEED'] ?? Date.now() % 2 ** 31);
  const only = process.env['FUZZ_ONLY'];
  t.diagnostic(`FUZZ_SEED=${seed}`);
  const port = Number(new URL(engine.url).port);
  const conform = await conformance(engine.url);
  const document = (await (await fetch(`${engine.url}/openapi.json`)).json()) as Document;
  const make = requestMaker(document, knownStrings(receiver));
  const client = api(engine, TOKENS.fuzz);
  const tokens = [...Array<string>(18).fill(TOKENS.fuzz), TOKENS.other, 'no-token-of-this-engine-000'];
  const statuses = new Map<string, number>();
  let pool = await fill(client, receiver);

  const one = async (dice: Dice, broken: boolean, request: Fuzzed): Promise<void> => {
    const status = broken ? await tryBroken(dice, port, request) : await tryWhole(port, request, conform);
    const name = `${broken ? 'broken ' : ''}${status}`;
    statuses.set(name, (statuses.get(name) ?? 0) + 1);
  };
  const tried = async (number: number): Promise<void> => {
    const dice = new Dice(seed, number);
    const broken = dice.chance(BROKEN);
    const request = make(dice, pool, tokens);
    const failed = (why: string, cause?: unknown): Error => {
      const { method, path, headers, body } = request;
      const shown = `${broken ? 'broken ' : ''}${method} ${path} ${JSON.stringify(headers)} ${body?.subarray(0, 500)}`;
      return new Error(`FUZZ_SEED=${seed} FUZZ_ONLY=${number}: ${why}: ${shown}`, { cause });
    };
    const done = one(dice, broken, request).catch((error: unknown) => {
      throw failed(error instanceof Error ? error.message : String(error), error);
    });
    if (!(await endsWithin(done, REQUEST_MS_MAX))) throw failed('it took too long');
  };
  if (only !== undefined) return tried(Number(only));

  let number = 0;
  let settled_mb = 0;
  const began_ms = performance.now();
  const left = (share: number): boolean => performance.now() - began_ms < ms * share;
  const worker = async (share: number): Promise<void> => {
    while (left(share)) {
      number += 1;
      if (number % POOL_EVERY === 0) pool = await fill(client, receiver);
      await tried(number);
    }
  };
  const together = (share: number): Promise<unknown> => Promise.all(Array.from({ length: TOGETHER }, () => worker(share)));
  await together(1 / 3);
  settled_mb = rssMb(engine.pid);
  await together(1);

  const grown_mb = rssMb(engine.pid) - settled_mb;
  const counted = [...statuses].toSorted().map(([status, count]) => `${status} ${count}`);
  t.diagnostic(
    `${number} requests in ${Math.round(performance.now() - began_ms)} ms: ${counted.join(', ')}; ${Math.round(grown_mb)} MB grown`,
  );
  assert.ok((statuses.get('200') ?? 0) + (statuses.get('201') ?? 0) > number / 20, 'some of it was right');
  assert.ok(grown_mb < RSS_GROWN_MB_MAX, `${grown_mb} MB grown`);
  assert.equal((await fetch(`${engine.url}/readyz`)).status, 200);
  for (const line of engine.logs())
    assert.ok(!/"level":(60|"fatal")|Error: |unhandled|uncaught/i.test(line) && !line.includes(TOKENS.fuzz), line);
}

/** No status but those that the document knows, in its form. */
async function tryWhole(port: number, request: Fuzzed, conform: Awaited<ReturnType<typeof conformance>>): Promise<number | string> {
  const reply = await sendWhole(port, request);
  if (reply === null) return 'closed';
  const { status, type, body, retry_after } = reply;
  const text = body.toString();
  const shown = (): string =>
    `${request.method} ${request.path} ${JSON.stringify(request.headers)} ${request.body?.subarray(0, 1_000)}: ${status} ${text.slice(0, 500)}`;
  assert.notEqual(status, 500, shown());
  if (status === 503 || status === 429) assert.match(retry_after ?? '', /^\d+$/, shown());
  if (status >= 400 && request.method !== 'HEAD' && !isParsers(status, type, text)) isEnvelope(text, type, shown);
  if (type.startsWith('application/json') && request.method !== 'HEAD' && status !== 404) {
    conform(request.method, request.path, { status, headers: {}, text, json: JSON.parse(text) });
  }
  return status;
}

async function tryBroken(dice: Dice, port: number, request: Fuzzed): Promise<number | string> {
  const pieces = brokenBytes(dice, request);
  const text = (await sendBytes(dice, port, pieces)).toString('latin1');
  if (text === '') return 'closed';
  const shown = (): string => `${JSON.stringify(Buffer.concat(pieces).toString('latin1').slice(0, 1_500))}: ${text.slice(0, 500)}`;
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(text)?.[1] ?? assert.fail(shown()));
  assert.notEqual(status, 500, shown());
  const [head = '', body = ''] = text.split('\r\n\r\n', 2);
  const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? Number.NaN);
  // Answers may be cut by us; several requests are answered one behind the other.
  if (status >= 400 && body.length >= length && request.method !== 'HEAD') {
    const type = /content-type: (.*)/i.exec(head)?.[1] ?? '';
    if (!isParsers(status, type, body)) isEnvelope(Buffer.from(body.slice(0, length), 'latin1').toString(), type, shown);
  }
  return status;
}

function isParsers(status: number, type: string, text: string): boolean {
  return PARSER_STATUS.has(status) && type === '' && (text === '' || /^<h1>[\w ]+<\/h1>/.test(text));
}

function isEnvelope(text: string, type: string, shown: () => string): void {
  assert.ok(type.startsWith('application/json'), shown());
  const { error, ...rest } = JSON.parse(text) as { error: { code: string; message: string; details: object } };
  assert.deepEqual([Object.keys(rest), Object.keys(error).sort()], [[], ['code', 'details', 'message']], shown());
  assert.ok(/^[a-z_]+$/.test(error.code) && error.message.length > 0 && error.message.length < 2_000, shown());
  assert.ok(!/\bat .*\.(ts|js):\d+|redis|ECONN|lua\//i.test(error.message), `it tells of our insides: ${shown()}`);
}

/** Something of everything, for requests to name. */
async function fill(client: Client, receiver: Receiver): Promise<Pool> {
  const url = receiver.at('/fuzz');
  const far = { execute_after: inSeconds(3_600) };
  const post = async (path: string, body: object): Promise<string> =>
    ((await client.ask('POST', path, { body })).json as { id?: string }).id ?? 'none';
  const batches = await Promise.all(
    [far, {}, { retry: { max_retries: 0 } }].map((more) =>
      client.create({
        tasks: [
          { target: url, ...more },
          { target: url, ...more },
        ],
        notifications: { on_finish: { url } },
        options: { hold: more === far },
      }),
    ),
  );
  const single = await client.createTask({ target: url, ...far });
  const [limiter, schedule] = await Promise.all([
    post('/v1/rate-limiters', { name: `limiter-${pools++}`, type: 'window', config: { limit: 5, interval: 1 } }),
    post('/v1/schedules', { cron: '0 0 29 2 *', timezone: 'UTC', task_template: { target: url } }),
  ]);
  return {
    batch_id: batches.map(({ id }) => id),
    task_id: [single.id, ...batches.map(({ id }) => `${id.replace('batch_', 'task_')}_0`)],
    notification_id: batches.map(({ id }) => `${id.replace('batch_', 'ntf_')}_0`),
    schedule_id: [schedule],
    rate_limiter_id: [limiter],
  };
}

let pools = 0;

/** What is right for fields that a schema tells little of. */
function knownStrings(receiver: Receiver): Known {
  const url = receiver.at('/fuzz');
  return {
    url: () => url,
    target: (dice) => (dice.chance(0.5) ? url : { url, method: dice.pick(['POST', 'GET', 'PUT']), headers: { 'x-a': 'b' } }),
    execute_after: () => inSeconds(3_600),
    valid_until: () => inSeconds(7_200),
    rate_limiter: (dice) => `limiter-${dice.int(Math.max(1, pools))}`,
    name: (dice) => `limiter-${dice.int(1_000)}`,
    cron: (dice) => dice.pick(['0 0 29 2 *', '*/5 * * * *', '@hourly', '0 12 L * *', '0 0 * * 5#2']),
    timezone: (dice) => dice.pick(['UTC', 'Europe/Berlin', 'America/New_York']),
    labels: (dice) => ({ [`k${dice.int(5)}`]: 'v' }),
    cursor: (dice) => dice.pick(['', 'x', 'AAAA', 'eyJhIjoxfQ']),
    ticket: () => `stk_${'a'.repeat(43)}`,
  };
}
