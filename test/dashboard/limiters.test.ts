// Rate limiters in a real browser: made in the form, watched while tasks wait, paused, changed, deleted.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { createClient } from '../../src/client/index.ts';
import { buildDashboard, openPage, signIn, startBrowser } from '../helpers/browser.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';

buildDashboard();
const [engine, browser, receiver] = await Promise.all([startEngine(), startBrowser(), startReceiver()]);
const client = createClient({ base_url: engine.url, token: TOKENS.acme });

/** The tile of this name when it says so. */
const tile = (page: Page, name: string, value: string | RegExp): Promise<void> =>
  page.locator('.tiles > div', { hasText: name }).locator('dd', { hasText: value }).waitFor();

test('a limiter made in the form holds tasks, and shows how many wait and when the next may start', async () => {
  const { page, complaints } = await openPage(browser);
  await signIn(page, engine.url, '#/limiters');
  await page.getByText('No rate limiters yet').waitFor();
  await page.getByRole('link', { name: 'Create the first one' }).click();
  await page.getByLabel('Name, by which').fill('crm');
  await page.getByLabel('Starts').fill('2');
  await page.getByLabel('Seconds', { exact: true }).fill('3600');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('heading', { name: 'crm' }).waitFor();
  await tile(page, 'Free now', /^2$/);
  const { id } = await client.createBatch({
    tasks: Array.from({ length: 7 }, () => ({ target: receiver.at('/held', {}), rate_limiter: 'crm' })),
  });
  await receiver.heard('/held', 2);
  await tile(page, 'Waiting', /^5$/);
  await tile(page, 'Free now', /^0$/);
  await tile(page, 'Next free', /^in /);
  await page.getByRole('img', { name: 'Now: now waiting 5, free 0' }).waitFor();
  await page.getByRole('link', { name: 'Limiters', exact: true }).first().click();
  await page.getByRole('row', { name: /crm.*5/ }).waitFor();
  await client.cancelBatch(id);
  assert.deepEqual(complaints, []);
});

test('a limiter is paused and resumed, changed while tasks wait for it, and deleted', async () => {
  const target = receiver.at('/paused', {});
  const { id } = await client.createLimiter({ name: 'paused', type: 'window', config: { limit: 1, interval: 3_600 } });
  const { page, complaints } = await openPage(browser);
  page.on('dialog', (dialog) => void dialog.accept());
  await signIn(page, engine.url, `#/limiters/${id}`);
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.locator('.title .status.paused').waitFor();
  await client.createBatch({ tasks: Array.from({ length: 4 }, () => ({ target, rate_limiter: 'paused' })) });
  await tile(page, 'Waiting', /^4$/);
  assert.equal(receiver.to('/paused').length, 0);
  await page.getByRole('button', { name: 'Resume' }).click();
  await page.locator('.title .status.active').waitFor();
  await receiver.heard('/paused', 1);
  await tile(page, 'Waiting', /^3$/);
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.getByLabel('Starts').fill('3');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('3 in any hour').waitFor();
  await receiver.heard('/paused', 3);
  await tile(page, 'Waiting', /^1$/);
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('heading', { name: /^Rate limiters/ }).waitFor();
  await receiver.heard('/paused', 4);
  assert.deepEqual(complaints, []);
});

test('what is typed stays while others change the limiter, and what they changed is told before it is replaced', async () => {
  const { id } = await client.createLimiter({ name: 'shared', type: 'window', config: { limit: 1, interval: 60 } });
  const { page, complaints } = await openPage(browser);
  await signIn(page, engine.url, `#/limiters/${id}`);
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.getByLabel('Starts').fill('5');
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.locator('.title .status.paused').waitFor();
  assert.equal(await page.getByLabel('Starts').inputValue(), '5');
  await client.updateLimiter(id, { config: { limit: 2, interval: 60 } });
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Somebody else has changed it').waitFor();
  assert.equal((await client.getLimiter(id)).config['limit'], 2);
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('5 in any minute').waitFor();
  assert.deepEqual(complaints, []);
});

test('a name that is taken is said at the name', async () => {
  await client.createLimiter({ name: 'taken', type: 'concurrent', config: { limit: 1 } });
  const { page } = await openPage(browser);
  await signIn(page, engine.url, '#/limiters/new');
  await page.getByLabel('Name, by which').fill('taken');
  await page.getByLabel('Starts').fill('2');
  await page.getByLabel('Seconds', { exact: true }).fill('60');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('textbox', { name: 'Name', description: 'exists already' }).waitFor();
});

test('limiters fit a phone, by night', async () => {
  const { id } = await client.createLimiter({
    name: 'a-limiter-with-quite-a-long-name-for-a-phone',
    type: 'concurrent',
    config: { limit: 5 },
  });
  for (const hash of ['#/limiters', '#/limiters/new', `#/limiters/${id}`]) {
    const { page, complaints } = await openPage(browser, { width: 390, dark: true });
    await signIn(page, engine.url, hash);
    await page.getByRole('heading', { level: 1 }).waitFor();
    if (hash.includes(id)) await page.locator('.chart canvas').first().waitFor();
    const width = Number(await page.evaluate('document.documentElement.scrollWidth'));
    assert.ok(width <= 390, `${hash} is ${width} wide`);
    assert.deepEqual(complaints, []);
  }
});
