// The dashboard in a real browser, served by a real engine: what a person does with it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { createClient } from '../../src/client/index.ts';
import { buildDashboard, openPage, signIn, startBrowser } from '../helpers/browser.ts';
import { startEngine, TOKENS } from '../helpers/engine.ts';
import { startReceiver } from '../helpers/receiver.ts';

buildDashboard();
const [engine, browser] = await Promise.all([startEngine(), startBrowser()]);
const client = createClient({ base_url: engine.url, token: TOKENS.acme });

async function signedIn(hash = '', options: { width?: number; dark?: boolean } = {}): Promise<{ page: Page; complaints: string[] }> {
  const opened = await openPage(browser, options);
  await signIn(opened.page, engine.url, hash);
  return opened;
}

async function widthOf(page: Page): Promise<number> {
  return Number(await page.evaluate('document.documentElement.scrollWidth'));
}

test('a token that the service does not take is refused in words, and one that it takes is kept for the tab', async () => {
  const { page } = await openPage(browser);
  await page.goto(engine.url);
  await page.getByLabel('Access token').fill('slk_wrong');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('alert').waitFor();
  await page.getByLabel('Access token').fill(TOKENS.acme);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  await page.reload();
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Access token').waitFor();
  assert.equal(await page.evaluate('sessionStorage.length'), 0);
});

test('a batch made in the form runs, is listed, and shows what became of its tasks', async () => {
  const receiver = await startReceiver();
  const { page, complaints } = await signedIn('#/batches');
  await page.getByText('No batches yet').waitFor();
  await page.getByRole('link', { name: 'Create the first one' }).click();
  await page.getByLabel('Description').fill('Three calls');
  await page.getByLabel('URL', { exact: true }).fill(receiver.url);
  await page.getByLabel('Times').fill('3');
  await page.getByLabel('Payload, JSON').fill('{"n": 1}');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByRole('heading', { name: 'Three calls' }).waitFor();
  await page.locator('.title .status.completed').waitFor();
  // The list is another request than the batch.
  await page.locator('tbody tr').nth(2).waitFor();
  assert.equal(await page.locator('tbody tr').count(), 3);
  await page.getByRole('link', { name: 'Batches' }).first().click();
  await page.getByRole('link', { name: 'Three calls' }).waitFor();
  const bar = page.getByRole('progressbar').first();
  assert.equal(await bar.getAttribute('aria-valuenow'), '3');
  assert.deepEqual(complaints, []);
});

test('a batch that failed shows why, runs its failed tasks again, tells of it once more, and can be deleted', async () => {
  const receiver = await startReceiver();
  const target = receiver.at('/work', { status: 503, body: 'Come back later.' }, {});
  const on_finish = receiver.at('/told', {});
  const { id } = await client.createBatch({
    description: 'Two of them',
    tasks: [1, 2].map((n) => ({ target, payload: { n }, retry: { max_retries: 0 } })),
    notifications: { on_finish: { url: on_finish } },
  });
  await receiver.heard('/told', 1);
  const { page, complaints } = await signedIn(`#/batches/${id}`);
  page.on('dialog', (dialog) => void dialog.accept());
  await page.locator('.title .status.failed').waitFor();
  const tasks = page.getByRole('region', { name: 'Tasks' });
  await tasks.locator('tbody button.fold').first().click();
  await tasks.getByText('Come back later.').waitFor();
  const log = page.getByRole('region', { name: 'Notifications' });
  await log.locator('.status.delivered').waitFor();
  await log.getByRole('button', { name: 'Redeliver' }).click();
  await receiver.heard('/told', 2);
  const [first, second] = receiver.to('/told');
  assert.equal(second?.id, first?.id);

  const phone = (await signedIn(`#/batches/${id}`, { width: 390 })).page;
  await phone.getByRole('region', { name: 'Tasks' }).locator('tbody button.fold').first().click();
  await phone.getByRole('button', { name: 'Redeliver' }).first().waitFor();
  assert.ok((await widthOf(phone)) <= 390);

  await page.getByRole('button', { name: 'Retry 2 failed' }).click();
  await page.locator('.title .status.completed').waitFor();
  assert.equal(await page.getByRole('progressbar').getAttribute('aria-valuenow'), '2');
  await receiver.heard('/told', 3);
  await log.locator('tbody tr:nth-child(2)').waitFor();
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('heading', { name: /^Batches/ }).waitFor();
  await assert.rejects(client.getBatch(id), { code: 'batch_not_found' });
  assert.deepEqual(complaints, []);
});

test('what runs is cancelled after a question', async () => {
  const receiver = await startReceiver();
  const target = receiver.at('/held', { hold: true });
  const execute_after = new Date(Date.now() + 3_600_000).toISOString();
  const { id } = await client.createBatch({ tasks: [{ target }, ...Array.from({ length: 9 }, () => ({ target, execute_after }))] });
  await receiver.heard('/held', 1);
  const { page } = await signedIn(`#/batches/${id}`);
  const asked: string[] = [];
  page.on('dialog', (dialog) => {
    asked.push(dialog.message());
    void dialog.accept();
  });
  await page.locator('.title .status.processing').waitFor();
  await page.getByRole('button', { name: 'Cancel' }).first().click();
  await page.locator('.title .status.cancelled').waitFor();
  assert.match(asked[0] ?? '', /10 tasks/);
  assert.equal(await page.getByRole('progressbar').getAttribute('aria-valuenow'), '9');
  receiver.release('/held');
});

test('what the service refuses is said where it was entered', async () => {
  const { page } = await signedIn('#/batches/new');
  await page.getByLabel('As JSON').check();
  await page.getByLabel('Tasks, a JSON array').fill('[{"target": "ftp://example.com"}]');
  await page.getByRole('button', { name: 'Create' }).click();
  assert.match((await page.getByRole('alert').textContent()) ?? '', /\/tasks\/0\/target/);
  await page.getByLabel('Tasks, a JSON array').fill('[');
  await page.getByRole('button', { name: 'Create' }).click();
  await page.getByText('This is no JSON').waitFor();
});

test('the overview draws its charts and fits a phone, by day and by night', async () => {
  for (const dark of [false, true]) {
    const { page, complaints } = await signedIn('#/overview', { width: 390, dark });
    await page.locator('.chart canvas').first().waitFor();
    const width = await widthOf(page);
    assert.ok(width <= 390, `the page is ${width} wide`);
    assert.deepEqual(complaints, []);
  }
});

test('everything is reached by the keyboard', async () => {
  const { page } = await signedIn('#/overview');
  await page.locator('body').press('Tab');
  assert.equal(await page.evaluate('document.activeElement?.textContent?.trim()'), 'Skip to the content');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Tab');
  assert.equal(await page.evaluate('document.activeElement?.textContent?.trim()'), 'Batches');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: /^Batches/ }).waitFor();
});

/** Resolves when that has the focus: it is given after what gives it is shown. */
const focused = (page: Page, what: string): Promise<unknown> =>
  page.waitForFunction(`(document.activeElement?.textContent?.trim()) === ${JSON.stringify(what)}`);

test('the way past the navigation leads to the content of the same page, and a new page begins with its content', async () => {
  const { page } = await signedIn('#/schedules');
  await page.getByRole('heading', { level: 1, name: /^Schedules/ }).waitFor();
  await page.locator('body').press('Tab');
  await page.keyboard.press('Enter');
  await page.keyboard.press('Tab');
  await focused(page, 'New schedule');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'New schedule' }).waitFor();
  assert.equal(await page.evaluate('document.activeElement?.tagName'), 'MAIN');
});

test('paging and acting leave the focus where it is', async () => {
  await Promise.all(
    Array.from({ length: 26 }, (_, n) => client.createLimiter({ name: `n-${n}`, type: 'concurrent', config: { limit: 1 } })),
  );
  const { page, complaints } = await signedIn('#/limiters');
  await page.getByRole('button', { name: 'Next' }).press('Enter');
  await page.locator('tbody tr').nth(1).waitFor({ state: 'detached' });
  await focused(page, 'Next →');
  await page.locator('tbody a').press('Enter');
  await page.getByRole('button', { name: 'Pause' }).press('Enter');
  await page.locator('.title .status.paused').waitFor();
  await focused(page, 'Resume');
  assert.deepEqual(complaints, []);
});

test('a label that is being typed is not wiped away when the list comes again', async () => {
  await client.createBatch({ description: 'Labelled', labels: { env: 'prod' }, tasks: [{ target: 'http://127.0.0.1:9/' }] });
  const { page } = await signedIn('#/batches');
  await page.getByRole('link', { name: 'Labelled' }).waitFor();
  const label = page.getByLabel('Label');
  await label.pressSequentially('env=');
  const again = page.waitForResponse((response) => response.url().includes('/v1/batches?'));
  await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
  await (await again).finished();
  await label.pressSequentially('none');
  assert.equal(await label.inputValue(), 'env=none');
  await page.keyboard.press('Enter');
  await page.getByText('No batch is like this').waitFor();
  await label.fill('env');
  await page.keyboard.press('Enter');
  await page.getByText('asked for as key=value').waitFor();
});

test('failures of a batch that still runs are among those of the overview', async () => {
  const receiver = await startReceiver();
  const target = receiver.at('/failing', { status: 418 });
  const execute_after = new Date(Date.now() + 3_600_000).toISOString();
  await client.createBatch({
    description: 'Runs on',
    tasks: [
      { target, retry: { max_retries: 0 } },
      { target, execute_after },
    ],
  });
  await receiver.heard('/failing', 1);
  const { page } = await signedIn('#/overview');
  await page.getByRole('cell', { name: 'answers 418' }).waitFor();
});

test('a token that is no longer taken is said to be so', async () => {
  const { page } = await signedIn('#/schedules');
  await page.evaluate('sessionStorage.setItem("sluice.token", "slk_revoked")');
  await page.reload();
  await page.getByLabel('Access token').waitFor();
  await page.getByRole('alert').getByText('A valid access token is required').waitFor();
});

test('the page is served with a policy that lets nothing in from elsewhere, and its assets for ever', async () => {
  const page = await fetch(engine.url);
  const policy = page.headers.get('content-security-policy') ?? '';
  assert.match(policy, /default-src 'none'/);
  assert.doesNotMatch(policy, /unsafe|\*|https?:/);
  const html = await page.text();
  const asset = /src="\.(\/assets\/[^"]+\.js)"/.exec(html)?.[1] ?? '';
  const script = await fetch(engine.url + asset);
  assert.equal(script.status, 200);
  assert.match(script.headers.get('cache-control') ?? '', /immutable/);
  assert.equal(script.headers.get('content-type'), 'text/javascript; charset=utf-8');
  const etag = page.headers.get('etag') ?? '';
  assert.equal((await fetch(engine.url, { headers: { 'If-None-Match': etag } })).status, 304);
  assert.equal((await fetch(`${engine.url}/assets/none.js`)).status, 404);
});
