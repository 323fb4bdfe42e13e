// Limiters for end-to-end tests, and what the receiver's log is held against: what each kind promises, over every span.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import type { Limiter, LimiterUsage } from '../../src/schema/types.gen.ts';
import type { Client } from '../helpers/api.ts';
import type { EngineOptions } from '../helpers/engine.ts';
import type { ReceivedCall } from '../helpers/receiver.ts';

/** The way from the engine to the receiver; api.md allows so much. */
export const WAY_MS = 20;
const PATH = '/v1/rate-limiters';

const dir = mkdtempSync(join(tmpdir(), 'sluice-written-'));
after(() => rmSync(dir, { recursive: true, force: true }));
const WRITTEN_FILE = join(dir, 'written');

/** Engines of tests that look at times are started with these. */
export const WRITES: EngineOptions = { node_args: ['--import', './test/engine/written.js'], env: { WRITTEN_FILE } };

let names = 0;

export async function makeLimiter(client: Client, type: string, config: object, more: object = {}): Promise<{ name: string; id: string }> {
  names += 1;
  const name = `limit-${process.pid}-${names}`;
  const reply = await client.ask('POST', PATH, { body: { name, type, config, ...more } });
  assert.equal(reply.status, 201, reply.text);
  return { name, id: (reply.json as Limiter).id };
}

/** PATCH, DELETE, or one of pause, resume and reset. */
export async function changeLimiter(client: Client, id: string, what: string, body?: object): Promise<void> {
  const [method, path] = /^[A-Z]/.test(what) ? [what, ''] : ['POST', `/${what}`];
  const { status, text } = await client.ask(method, `${PATH}/${id}${path}`, body === undefined ? {} : { body });
  assert.equal(status, 200, text);
}

export async function usageOf(client: Client, id: string): Promise<LimiterUsage> {
  const { status, json, text } = await client.ask('GET', `${PATH}/${id}/usage`);
  assert.equal(status, 200, text);
  return json as LimiterUsage;
}

/** `n` of each call's payload, in order of arrival. */
export function numbersOf(calls: readonly ReceivedCall[]): number[] {
  return calls.map(({ body }) => (JSON.parse(body.toString()) as { n: number }).n);
}

/** When each of these requests was written, in the order of `calls`. */
function writtenAt(calls: readonly ReceivedCall[]): number[] {
  const lines = readFileSync(WRITTEN_FILE, 'utf8').trimEnd().split('\n');
  const at = new Map<string, number[]>();
  for (const line of lines) {
    const [id, attempt, at_ms] = line.split(' ');
    const known = at.get(`${id} ${attempt}`) ?? [];
    at.set(`${id} ${attempt}`, known);
    known.push(Number(at_ms));
  }
  return calls.map(({ id, attempt, at_ms }) => {
    // An attempt that was handed back uncounted is written again under the same number.
    const written = at.get(`${id} ${attempt}`)?.shift();
    assert.ok(written !== undefined && written <= at_ms, `${id}, attempt ${attempt}, came at ${at_ms} and was written at ${written}`);
    return written;
  });
}

/** The same, ascending. */
export function times(calls: readonly ReceivedCall[]): number[] {
  return writtenAt(calls).sort((a, b) => a - b);
}

/** From the first to the last. */
export function lengthOf(calls: readonly ReceivedCall[]): number {
  const at = times(calls);
  return (at.at(-1) ?? 0) - (at[0] ?? 0);
}

/** No span of `interval_ms` holds more than `limit` calls, but for `slack_ms`. */
export function checkSpans(calls: readonly ReceivedCall[], limit: number, interval_ms: number, slack_ms = WAY_MS): void {
  const at = times(calls);
  for (let i = 0; i + limit < at.length; i++) {
    const [from, to] = [at[i] ?? 0, at[i + limit] ?? 0];
    const span = to - from;
    assert.ok(span >= interval_ms - slack_ms, `calls ${i} to ${i + limit} came within ${span} ms`);
  }
}

/** How much of what a window allows was used while tasks waited: by how long it took until each start was followed by the next in its place. */
export function shareOf(calls: readonly ReceivedCall[], limit: number, interval_ms: number): number {
  const at = times(calls);
  const gaps = at.slice(limit).map((to, i) => to - (at[i] ?? 0));
  return interval_ms / (gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length);
}

/** For all spans of whole intervals of the clock: no more than `limit` in each. */
export function checkAligned(calls: readonly ReceivedCall[], limit: number, interval_ms: number): void {
  const at = times(calls);
  const [first, last] = [Math.floor((at[0] ?? 0) / interval_ms), Math.floor((at.at(-1) ?? 0) / interval_ms)];
  // What comes right after an edge may have left before it, so a span begins a little later.
  for (let from = first; from <= last; from++) {
    for (let to = from; to <= last; to++) {
      const within = at.filter((one) => one >= from * interval_ms + WAY_MS && one < (to + 1) * interval_ms).length;
      assert.ok(within <= limit * (to - from + 1), `${within} from interval ${from} to ${to}`);
    }
  }
}

/** For all spans: cost <= capacity + what comes back in that time. */
export function checkRate(
  calls: readonly ReceivedCall[],
  capacity: number,
  per_ms: number,
  costOf: (call: ReceivedCall) => number = () => 1,
): void {
  const at = writtenAt(calls);
  const sorted = calls.map((call, i) => ({ at_ms: at[i] ?? 0, cost: costOf(call) })).sort((a, b) => a.at_ms - b.at_ms);
  for (const [i, { at_ms: from_ms }] of sorted.entries()) {
    let sum = 0;
    for (const [j, { at_ms, cost }] of sorted.entries()) {
      if (j < i) continue;
      sum += cost;
      const span = at_ms - from_ms + WAY_MS;
      assert.ok(sum <= capacity + span * per_ms + 1e-6, `calls ${i} to ${j}: ${sum} units within ${span} ms`);
    }
  }
}
