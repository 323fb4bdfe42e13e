// Schedules in a real browser: written with a preview, run by hand, switched off and on, looked back at.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createClient } from '../../src/client/index.ts';
import { buildDashboard, openPage, signIn, startBrowser } from '../helpers/browser.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';

buildDashboard();
const [engine, browser, receiver] = await Promise.all([startEngine(), startBrowser(), startReceiver()]);
const client = createClient({ base_url: engine.url, token: TOKENS.acme });

test('a schedule is created with a preview of its next runs while it is written', async () => {
  const { page } = await openPage(browser);
  await signIn(page, engine.url, '#/schedules');
  await page.getByText('No schedules yet').waitFor();
  await page.getByRole('link', { name: 'Create the first one' }).click();
  const cron = page.getByLabel('Cron expression');
  await page.getByLabel('Time zone').fill('Asia/Kathmandu');
  await page.getByRole('columnheader', { name: 'In Asia/Kathmandu' }).waitFor();
  await cron.fill('0 9 * *');
  await page.getByRole('alert').waitFor();
  await cron.fill('30 2 29 2 *');
  await page.getByRole('cell', { name: '2028-02-29 02:30:00 +05:45' }).waitFor();
  assert.equal(await page.locator('form tbody tr').count(), 5);
  assert.equal(await page.getByRole('alert').count(), 0);
  await page.getByLabel('URL to call').fill(receiver.url);
  await page.getByLabel('Payload, JSON').fill('{"n": 1}');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('heading', { name: '30 2 29 2 *' }).waitFor();
  await page.getByRole('region', { name: 'Next runs' }).getByRole('cell', { name: '2028-02-29 02:30:00 +05:45' }).waitFor();
  const { schedules } = await client.listSchedules();
  assert.deepEqual(schedules[0]?.task_template, { target: receiver.url, payload: { n: 1 } });
});

test('a schedule is run by hand, disabled, enabled and deleted, and its runs are listed', async () => {
  const target = receiver.at('/by-hand', {});
  const { id } = await client.createSchedule({ cron: '0 0 1 1 *', timezone: 'Europe/Berlin', task_template: { target } });
  const { page, complaints } = await openPage(browser);
  page.on('dialog', (dialog) => void dialog.accept());
  await signIn(page, engine.url, '#/schedules');
  await page.getByRole('link', { name: target }).click();
  await page.locator('.title .status.active').waitFor();
  await page.getByRole('button', { name: 'Run now' }).click();
  await receiver.heard('/by-hand', 1);
  await page.getByRole('region', { name: /^Runs/ }).locator('.status.completed').waitFor();
  await page.getByRole('button', { name: 'Disable' }).click();
  await page.locator('.title .status.disabled').waitFor();
  assert.equal((await client.getSchedule(id)).enabled, false);
  await page.getByRole('button', { name: 'Enable' }).click();
  await page.locator('.title .status.active').waitFor();
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('heading', { name: /^Schedules/ }).waitFor();
  await assert.rejects(client.getSchedule(id), { code: 'schedule_not_found' });
  assert.deepEqual(complaints, []);
});

test('schedules fit a phone', async () => {
  const { id } = await client.createSchedule({
    cron: '*/10 * * * *',
    timezone: 'America/Argentina/Buenos_Aires',
    batch_template: { description: 'Every ten minutes', task_templates: [{ target: receiver.url }, { target: receiver.url }] },
  });
  for (const hash of ['#/schedules', '#/schedules/new', `#/schedules/${id}`]) {
    const { page, complaints } = await openPage(browser, { width: 390 });
    await signIn(page, engine.url, hash);
    await page.locator('tbody tr').first().waitFor();
    const width = Number(await page.evaluate('document.documentElement.scrollWidth'));
    assert.ok(width <= 390, `${hash} is ${width} wide`);
    assert.deepEqual(complaints, []);
  }
});
