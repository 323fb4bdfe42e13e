// The dashboard while things happen: streams move it, and a server that comes back is found again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { freePort } from '../../bench/lib/ports.ts';
import { createClient } from '../../src/client/index.ts';
import { buildDashboard, openPage, signIn, startBrowser } from '../helpers/browser.ts';
import { type Engine, startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { startRedis } from '../helpers/redis.ts';

buildDashboard();
const [browser, receiver, redis] = await Promise.all([startBrowser(), startReceiver(), startRedis()]);

const done = (page: Page, count: number): Promise<void> => page.locator(`main [role=progressbar][aria-valuenow="${count}"]`).waitFor();

test('a batch is watched live until it has finished, by its stream and not by asking', async () => {
  const engine = await startEngine();
  const client = createClient({ base_url: engine.url, token: TOKENS.acme });
  const target = receiver.at('/live', { hold: true });
  const { id } = await client.createBatch({ description: 'Live', tasks: [1, 2, 3].map((n) => ({ target, payload: { n } })) });
  await receiver.heard('/live', 3);
  const { page, complaints } = await openPage(browser);
  await signIn(page, engine.url, `#/batches/${id}`);
  await page.getByText('live', { exact: true }).waitFor();
  await done(page, 0);
  // From here on asking tells nothing new.
  const json = await client.getBatch(id);
  await page.route(`**/v1/batches/${id}`, (route) => route.fulfill({ json }));
  receiver.release('/live', false);
  await done(page, 3);
  await page.locator('.title .status.completed').waitFor();
  await page.locator('section[aria-labelledby=tasks] .status.completed').nth(2).waitFor();
  assert.deepEqual(complaints, []);
});

test('the list of batches moves with the streams of those that run', async () => {
  const engine = await startEngine();
  const client = createClient({ base_url: engine.url, token: TOKENS.acme });
  const target = receiver.at('/listed', { hold: true });
  await client.createBatch({ description: 'Listed', tasks: [{ target }, { target }] });
  await receiver.heard('/listed', 2);
  const { page } = await openPage(browser);
  const json = await client.listBatches();
  await page.route('**/v1/batches?limit=25*', (route) => route.fulfill({ json }));
  await signIn(page, engine.url, '#/batches');
  await done(page, 0);
  receiver.release('/listed', false);
  await done(page, 2);
  await page.locator('tbody .status.completed').waitFor();
});

test('a page that stays open while the server is started again is right again by itself', async () => {
  const env = { SLUICE_PORT: String(await freePort()) };
  const start = (): Promise<Engine> => startEngine({ redis_url: `unix://${redis.path}`, env });
  const first = await start();
  const client = createClient({ base_url: first.url, token: TOKENS.acme });
  const execute_after = new Date(Date.now() + 3_600_000).toISOString();
  const { id } = await client.createBatch({ tasks: [{ target: receiver.url, execute_after }] });
  const { page } = await openPage(browser);
  await signIn(page, first.url, `#/batches/${id}`);
  await page.getByText('live', { exact: true }).waitFor();
  await first.kill9();
  await page.getByText('live', { exact: true }).waitFor({ state: 'detached' });
  await page.getByRole('alert').first().waitFor();
  await start();
  await client.addTasks(id, { tasks: [{ target: receiver.url, execute_after }] });
  await page.getByText('live', { exact: true }).waitFor();
  await page.locator('[role=progressbar][aria-valuemax="2"]').waitFor();
  await client.cancelBatch(id);
  await done(page, 2);
  await page.locator('.title .status.cancelled').waitFor();
  await page.getByRole('alert').first().waitFor({ state: 'detached' });
});
