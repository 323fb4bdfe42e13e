// Schedules in a real browser: written with a preview, run by hand, switched off and on, looked back at.
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

/** Bodies of the changes that the page sends. */
function patches(page: Page): unknown[] {
  const sent: unknown[] = [];
  page.on('request', (request) => {
    if (request.method() === 'PATCH') sent.push(request.postDataJSON());
  });
  return sent;
}

/** Resolves when that has the focus: it is given after what gives it is shown. */
const focused = (page: Page, what: string): Promise<unknown> =>
  page.waitForFunction(`(document.activeElement?.id || document.activeElement?.textContent) === ${JSON.stringify(what)}`);

test('a schedule is changed by keyboard alone, and only what changed is sent', async () => {
  const { id } = await client.createSchedule({
    cron: '0 9 * * *',
    timezone: 'UTC',
    start_at: '2031-01-01T00:00:00.500Z',
    task_template: { target: receiver.url, payload: { n: 1 } },
  });
  const { page, complaints } = await openPage(browser);
  const sent = patches(page);
  await signIn(page, engine.url, `#/schedules/${id}`);
  await page.getByRole('button', { name: 'Edit' }).press('Enter');
  await page.getByRole('region', { name: /^Change/ }).waitFor();
  await focused(page, 'field-cron');
  await page.keyboard.press('Control+A');
  await page.keyboard.type('15 7 * * *');
  await page.keyboard.press('Tab');
  await focused(page, 'field-timezone');
  assert.equal(await page.getByLabel('Time zone').inputValue(), 'UTC');
  assert.match(await page.getByLabel('From, on your clock').inputValue(), /^20(30-12-31|31-01-01)T/);
  assert.deepEqual(JSON.parse(await page.getByLabel('Task template, JSON').inputValue()), { target: receiver.url, payload: { n: 1 } });
  // Its start is heeded by the preview.
  await page
    .getByRole('region', { name: /^Change/ })
    .getByRole('cell', { name: '2031-01-01 07:15:00 +00:00' })
    .waitFor();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: '15 7 * * *' }).waitFor();
  await page.getByRole('region', { name: /^Change/ }).waitFor({ state: 'detached' });
  await focused(page, 'Edit');
  assert.deepEqual(sent, [{ cron: '15 7 * * *' }]);
  assert.equal((await client.getSchedule(id)).start_at, '2031-01-01T00:00:00.500Z');

  await page.keyboard.press('Enter');
  await page.getByLabel('From, on your clock').fill('');
  await page.getByLabel('A batch, as JSON').check();
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('a batch of 1 task', { exact: true }).waitFor();
  assert.deepEqual(sent[1], { start_at: null, batch_template: { task_templates: [{ target: receiver.url, payload: { n: 1 } }] } });
  assert.deepEqual(complaints, []);
});

test('what the service refuses of a change is said at its field, and what was typed stays', async () => {
  const target = { url: receiver.url, headers: { authorization: 'Bearer secret' } };
  const { id } = await client.createSchedule({ cron: '0 9 * * *', timezone: 'UTC', task_template: { target } });
  const { page } = await openPage(browser);
  const sent = patches(page);
  await signIn(page, engine.url, `#/schedules/${id}`);
  await page.getByRole('button', { name: 'Edit' }).click();
  const template = page.getByLabel('Task template, JSON');
  const text = (await template.inputValue()).replace('{', '{"rate_limiter": "none",');
  await template.fill(text);
  await page.getByRole('button', { name: 'Save' }).click();
  // Sent as they are shown, the headers would be lost.
  await page.getByRole('textbox', { name: 'Task template', description: 'or they are lost: authorization' }).waitFor();
  assert.deepEqual(sent, []);
  await template.fill(text.replace('***', 'Bearer other'));
  await page.getByLabel('Until, on your clock').fill('2020-01-01T00:00');
  await page.getByLabel('From, on your clock').fill('2021-01-01T00:00');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByLabel('Until, on your clock').and(page.locator('[aria-invalid]')).waitFor();
  await focused(page, 'field-end_at');
  await page.getByLabel('Until, on your clock').fill('');
  assert.equal(await page.locator('[aria-invalid]').count(), 0);
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('textbox', { name: 'Task template', description: 'no rate limiter has this name' }).waitFor();
  assert.equal(await template.inputValue(), text.replace('***', 'Bearer other'));
  await template.fill('{');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('textbox', { name: 'Task template', description: 'This is no JSON' }).waitFor();
  await page.getByLabel('Time zone').fill('Mars/Olympus');
  await page.getByRole('combobox', { name: 'Time zone', description: 'not a known IANA name' }).waitFor();
  assert.equal((await client.getSchedule(id)).timezone, 'UTC');
});

test('the focus moves with what is shown, never after it: it would be taken from who types elsewhere by then', async () => {
  const { id } = await client.createSchedule({ cron: '0 9 * * *', timezone: 'UTC', task_template: { target: receiver.url } });
  const { page } = await openPage(browser);
  await signIn(page, engine.url, `#/schedules/${id}`);
  /** What has the focus as soon as this is shown. */
  const focusAt = (selector: string, act: () => Promise<void>): Promise<unknown> => {
    const seen = page.evaluate(`new Promise((resolve) => new MutationObserver((_, observer) => {
      if (document.querySelector('${selector}') === null) return;
      observer.disconnect();
      resolve(document.activeElement?.id || document.activeElement?.tagName);
    }).observe(document, { childList: true, subtree: true, attributes: true }))`);
    return act().then(() => seen);
  };
  assert.equal(await focusAt('form', () => page.getByRole('button', { name: 'Edit' }).click()), 'field-cron');
  await page.getByLabel('Task template, JSON').fill('{');
  assert.equal(await focusAt('[role=alert]', () => page.getByRole('button', { name: 'Save' }).click()), 'field-task_template');
  assert.equal(await focusAt('h1:not(:has(code))', () => page.getByRole('link', { name: 'Limiters', exact: true }).click()), 'MAIN');
});

test('that somebody else changed the schedule meanwhile is said before theirs is replaced', async () => {
  const { id } = await client.createSchedule({ cron: '0 9 * * *', timezone: 'UTC', task_template: { target: receiver.url } });
  const { page } = await openPage(browser);
  const sent = patches(page);
  await signIn(page, engine.url, `#/schedules/${id}`);
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.getByLabel('Cron expression').fill('0 10 * * *');
  await client.patchSchedule(id, { cron: '0 11 * * *', timezone: 'Asia/Tokyo' });
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Somebody else has changed it').waitFor();
  assert.equal(await page.getByLabel('Cron expression').inputValue(), '0 10 * * *');
  assert.deepEqual(sent, []);
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { level: 1, name: '0 10 * * *' }).waitFor();
  // What was not touched here stays as they made it.
  assert.deepEqual(sent, [{ cron: '0 10 * * *' }]);
  assert.equal((await client.getSchedule(id)).timezone, 'Asia/Tokyo');
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.getByLabel('Cron expression').fill('0 12 * * *');
  await client.patchSchedule(id, { cron: '0 13 * * *' });
  await page.getByRole('button', { name: 'Drop what I typed' }).click();
  assert.equal(await page.getByLabel('Cron expression').inputValue(), '0 13 * * *');
  await client.deleteSchedule(id);
  await page.getByLabel('Cron expression').fill('0 14 * * *');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.locator('form').getByText('No schedule has this id').waitFor();
  assert.equal(await page.getByLabel('Cron expression').inputValue(), '0 14 * * *');
});

test('schedules fit a phone, by night, also while one is changed', async () => {
  const { id } = await client.createSchedule({
    cron: '*/10 * * * *',
    timezone: 'America/Argentina/Buenos_Aires',
    batch_template: { description: 'Every ten minutes', task_templates: [{ target: receiver.url }, { target: receiver.url }] },
  });
  for (const hash of ['#/schedules', '#/schedules/new', `#/schedules/${id}`]) {
    const { page, complaints } = await openPage(browser, { width: 390, dark: true });
    await signIn(page, engine.url, hash);
    await page.locator('tbody tr').first().waitFor();
    if (hash.includes(id)) {
      await page.getByRole('button', { name: 'Edit' }).click();
      await page.locator('form tbody tr').first().waitFor();
    }
    const width = Number(await page.evaluate('document.documentElement.scrollWidth'));
    assert.ok(width <= 390, `${hash} is ${width} wide`);
    assert.deepEqual(complaints, []);
  }
});
