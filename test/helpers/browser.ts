// A real Chromium for tests of the page: its own profile, no connection but to this machine, ended with the test file. And
// the page itself, built where that is due: these tests run without make too.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { after } from 'node:test';
import { fileURLToPath } from 'node:url';
import { type Browser, chromium, type Page } from 'playwright-core';
import { TOKENS } from './engine.ts';

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

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const BUILT = join(ROOT, 'dist/dashboard');
const SOURCES = ['src/dashboard', 'src/client', 'src/schema/types.gen.ts'].map((path) => join(ROOT, path));

/** Builds the page unless what an engine serves is as new as its sources. Throws what the build said. */
export function buildDashboard(): void {
  const built_ms = existsSync(join(BUILT, 'index.html')) ? statSync(join(BUILT, 'index.html')).mtimeMs : 0;
  if (SOURCES.every((path) => changedMs(path) <= built_ms)) return;
  const fresh = join(ROOT, `.make/dashboard-${process.pid}`);
  const args = ['build', 'src/dashboard', '--config', 'src/dashboard/vite.config.ts', '--outDir', fresh, '--logLevel', 'warn'];
  const { status, stdout, stderr, error } = spawnSync(join(ROOT, 'node_modules/.bin/vite'), args, { cwd: ROOT, encoding: 'utf8' });
  if (status !== 0) throw new Error(`The dashboard could not be built: ${error?.message ?? ''}\n${stdout}${stderr}`);
  mkdirSync(join(ROOT, 'dist'), { recursive: true });
  // Other test files start engines meanwhile, which read what is there: it is gone for no longer than two calls take.
  const old = `${fresh}-old`;
  if (existsSync(BUILT)) renameSync(BUILT, old);
  renameSync(fresh, BUILT);
  rmSync(old, { recursive: true, force: true });
}

/** The newest change of a file, or of anything in a directory; what was removed changes the directory. */
function changedMs(path: string): number {
  const stat = statSync(path);
  if (!stat.isDirectory()) return stat.mtimeMs;
  return Math.max(stat.mtimeMs, ...readdirSync(path).map((name) => changedMs(join(path, name))));
}

export async function startBrowser(): Promise<Browser> {
  const executablePath = PLACES.find((place) => existsSync(place));
  if (executablePath === undefined) throw new Error('No Chromium is installed: make setup/browser installs one, CHROMIUM names another.');
  const browser = await chromium.launch({ executablePath, headless: true, args: FLAGS });
  after(() => browser.close());
  return browser;
}

/**
 * A page, and everything that it complained about so far: errors thrown, errors on its console, what its policy refused.
 * Closed when the test ends.
 */
export async function openPage(
  browser: Browser,
  options: { width?: number; dark?: boolean } = {},
): Promise<{ page: Page; complaints: string[] }> {
  const context = await browser.newContext({
    viewport: { width: options.width ?? 1280, height: 860 },
    colorScheme: options.dark === true ? 'dark' : 'light',
  });
  after(() => context.close());
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => {
    if (message.type() === 'error') complaints.push(message.text());
  });
  return { page, complaints };
}

/** Opens the page at a view and signs in. */
export async function signIn(page: Page, url: string, hash = '', token: string = TOKENS.acme): Promise<void> {
  await page.goto(`${url}/${hash}`);
  await page.getByLabel('Access token').fill(token);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('navigation').waitFor();
}
