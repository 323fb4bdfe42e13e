// The API reference: an example of each endpoint, run as it is written, on the page of the documentation and on that of the server.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { HANDLERS, type HandlerName } from '../../src/api/call.ts';
import { sampleOf } from '../../src/http/examples.ts';
import { OPENAPI } from '../../src/http/openapi.gen.ts';
import { type EndpointDoc, referenceOf } from '../../src/schema/reference.ts';
import { inSeconds, ONCE } from '../engine/stage.ts';
import { api } from '../helpers/api.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { shell } from './shell.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const [engine, receiver] = await Promise.all([startEngine(), startReceiver()]);
const client = api(engine, TOKENS.acme);
const fine = receiver.at('/fine');
const gone = receiver.at('/gone', { status: 410 });
const LATER = { execute_after: inSeconds(600) };
const reference = referenceOf(JSON.parse(OPENAPI));
const endpoints = reference.sections.flatMap(({ endpoints: some }) => some);

/** Runs a command where curl fails with what was refused; what it printed. */
function run(command: string, env: Record<string, string>): Promise<string> {
  const given = {
    PATH: `${ROOT}bin:${process.env['PATH']}`,
    HOME: '/nonexistent',
    SLUICE_URL: engine.url,
    SLUICE_TOKEN: TOKENS.acme,
    ...env,
  };
  return shell(command, `curl() { command curl --fail-with-body "$@"; }\n${command}`, ROOT, given);
}

async function batchOf(task: object, more: object = {}): Promise<string> {
  return (await client.create({ tasks: [task], ...more })).id;
}

async function endedBatch(target: string, status: 'completed' | 'failed', more: object = {}): Promise<string> {
  const id = await batchOf({ target, ...ONCE }, more);
  await client.ended(id, status);
  return id;
}

async function made(path: string, body: object): Promise<string> {
  const { status, json, text } = await client.ask('POST', path, { body });
  assert.equal(status, 201, text);
  return (json as { id: string }).id;
}

let limiters = 0;
const newLimiter = (): Promise<string> => {
  limiters += 1;
  return made('/v1/rate-limiters', { name: `example-${limiters}`, type: 'window', config: { limit: 5, interval: 1 } });
};
const newSchedule = (): Promise<string> => made('/v1/schedules', { cron: '0 0 1 1 *', timezone: 'UTC', task_template: { target: fine } });
const newTask = async (more: object = {}): Promise<string> => (await client.createTask({ target: fine, ...more })).id;

/** What an endpoint needs to be there, beyond a batch that has ended. */
const SCENES: Partial<Record<HandlerName, () => Promise<Record<string, string>>>> = {
  addTasks: async () => ({ BATCH_ID: await batchOf({ target: fine }, { options: { hold: true } }) }),
  cancelBatch: async () => ({ BATCH_ID: await batchOf({ target: fine, ...LATER }) }),
  retryBatch: async () => ({ BATCH_ID: await endedBatch(gone, 'failed') }),
  releaseBatch: async () => ({ BATCH_ID: await batchOf({ target: fine }, { options: { hold: true } }) }),
  redeliverNotification: async () => {
    const BATCH_ID = await endedBatch(fine, 'completed', { notifications: { on_finish: { url: fine } } });
    const log = (await client.ask('GET', `/v1/batches/${BATCH_ID}/notifications`)).json as { notifications: { id: string }[] };
    return { BATCH_ID, NOTIFICATION_ID: log.notifications[0]?.id ?? '' };
  },
  cancelTask: async () => ({ TASK_ID: await newTask(LATER) }),
  retryTask: async () => {
    const TASK_ID = await newTask({ target: gone, ...ONCE });
    await client.taskWhen(TASK_ID, ({ status }) => status === 'failed');
    return { TASK_ID };
  },
};

const COMMON = { task_id: newTask, schedule_id: newSchedule, rate_limiter_id: newLimiter };

async function sceneOf({ name, title }: EndpointDoc): Promise<Record<string, string>> {
  const scene = (await SCENES[name as HandlerName]?.()) ?? {};
  for (const [, parameter = ''] of title.matchAll(/\{(\w+)\}/g)) {
    const variable = parameter.toUpperCase();
    if (scene[variable] !== undefined) continue;
    scene[variable] = await (parameter in COMMON ? COMMON[parameter as keyof typeof COMMON]() : endedBatch(fine, 'completed'));
  }
  return scene;
}

for (const one of endpoints) {
  test(`the example of ${one.title} works as it is written`, async () => {
    const out = await run(one.sample, await sceneOf(one));
    assert.ok(out.length > 0);
    if (one.answer.endsWith('line.') || one.status === '101' || one.name === 'streamBatchEvents') return;
    assert.equal(typeof JSON.parse(out), 'object');
  });
}

test('every endpoint is in the reference, with its example, in the documentation and in the server', async () => {
  assert.deepEqual(endpoints.map(({ name }) => name).sort(), [...HANDLERS].sort());
  const page = readFileSync(`${ROOT}docs/api.md`, 'utf8');
  const response = await fetch(`${engine.url}/docs`);
  assert.deepEqual([response.status, response.headers.get('content-type')], [200, 'text/html; charset=utf-8']);
  const html = await response.text();
  for (const { name, title, sample } of endpoints) {
    const [method = '', path = ''] = title.split(' ');
    assert.equal(sample, sampleOf({ name: name as HandlerName, method: method as 'GET', path }));
    assert.ok(page.includes(`### ${title}\n`) && page.includes(`\`\`\`sh\n${sample}\n\`\`\``), title);
    const shown = html.replaceAll('&quot;', '"').replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&');
    assert.ok(shown.includes(`<code>${sample}</code>`), `${title} at /docs`);
  }
});

test('the page of the server needs nothing from elsewhere, and nothing on it leads nowhere', async () => {
  const response = await fetch(`${engine.url}/docs`);
  const html = await response.text();
  assert.match(response.headers.get('content-security-policy') ?? '', /^default-src 'none'.*style-src 'self'/);
  const ids = new Set([...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id));
  const links = [...html.matchAll(/(?:href|src)="([^"]+)"/g)].map(([, link = '']) => link);
  assert.ok(links.length > endpoints.length);
  for (const link of new Set(links)) {
    if (link.startsWith('#')) assert.ok(ids.has(link.slice(1)), link);
    else if (link !== '/') assert.equal((await fetch(engine.url + link)).status, 200, link);
  }
  assert.ok(!/<script|<style| style=/.test(html));
  const etag = response.headers.get('etag') ?? '';
  assert.equal((await fetch(`${engine.url}/docs`, { headers: { 'if-none-match': etag } })).status, 304);
  assert.equal((await fetch(`${engine.url}/docs`, { method: 'HEAD' })).status, 200);
});
