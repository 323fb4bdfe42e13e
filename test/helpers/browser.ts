// A real Chromium for tests of the page: its own profile, no connection but to this machine, ended with the test file.
import { existsSync } from 'node:fs';
import { after } from 'node:test';
import { type Browser, chromium, type Page } from 'playwright-core';

const PLACES = [
  process.env['CHROMIUM'] ?? '',
  '/usr/bin/chromium',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
];

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export async function startBrowser(): Promise<Browser> {
  const executablePath = PLACES.find((place) => existsSync(place));
  if (executablePath === undefined) throw new Error('No Chromium is installed: make setup/browser installs one, CHROMIUM names another.');
  const browser = await chromium.launch({ executablePath, headless: true, args: FLAGS });
  after(() => browser.close());
  return browser;
}

/** A page, and everything that it complained about so far: errors thrown, errors on its console, what its policy refused. */
export async function openPage(
  browser: Browser,
  options: { width?: number; dark?: boolean } = {},
): Promise<{ page: Page; complaints: string[] }> {
  const context = await browser.newContext({
    viewport: { width: options.width ?? 1280, height: 860 },
    colorScheme: options.dark === true ? 'dark' : 'light',
  });
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(message.text());
  });
  return { page, complaints };
}
