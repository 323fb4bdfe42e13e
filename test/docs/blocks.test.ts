// The commands of README.md and docs/getting-started.md do what they say: every block is run as it is written, in its order, in one
// shell a page, with an empty HOME, beside a server like that of `make start`. A block that is not run says why.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { dataDir, startEngine } from '../helpers/engine.ts';
import { killAtExit } from '../helpers/redis.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const TOKEN = 'token-of-the-first-account-0001';

interface Block {
  line: number;
  language: string;
  text: string;
  /** Why it is not run; null where it is. */
  reason: string | null;
}

function blocksOf(page: string): Block[] {
  const text = readFileSync(join(ROOT, page), 'utf8');
  const found = text.matchAll(/(?:<!-- not run: ([^>]+) -->\n)?^```(\w*)\n(.*?)^```$/gms);
  return [...found].map(([whole, reason = null, language = '', body = '']) => {
    const line = text.slice(0, text.indexOf(whole)).split('\n').length;
    return { line, language, text: body, reason };
  });
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as { port: number };
  await new Promise((done) => server.close(done));
  return port;
}

/** A directory that looks like a clone after `make start`; the ports of the page are free ones there. */
async function clone(): Promise<{ dir: string; ports: [string, string][] }> {
  assert.ok(existsSync(join(ROOT, 'dist/cli.js')), 'make build comes first');
  const dir = mkdtempSync(join(tmpdir(), 'sluice-docs-'));
  after(() => rmSync(dir, { recursive: true, force: true }));
  for (const name of ['bin', 'dist', 'package.json', 'node_modules']) symlinkSync(join(ROOT, name), join(dir, name));
  const data_dir = dataDir();
  writeFileSync(join(data_dir, 'token'), `${TOKEN}\n`, { mode: 0o600 });
  symlinkSync(data_dir, join(dir, 'data'));
  mkdirSync(join(dir, 'home'));
  const [port, receiver] = [await freePort(), await freePort()];
  await startEngine({ data_dir, tokens: { default: TOKEN }, env: { SLUICE_PORT: String(port) } });
  const ports: [string, string][] = [
    ['8080', String(port)],
    ['9000', String(receiver)],
  ];
  return { dir, ports };
}

async function run(page: string): Promise<string> {
  const { dir, ports } = await clone();
  const blocks = blocksOf(page).filter(({ language, reason }) => language === 'sh' && reason === null);
  const script = blocks.map(({ line, text }) => `echo "# line ${line}"\n${text}`).join('\n');
  const moved = ports.reduce((text, [from, to]) => text.replaceAll(from, to), script);
  // What runs beside is ended with the shell. The port of the command line is that of the page.
  const head = 'set -eu -o pipefail\ntrap \'for job in $(jobs -p); do kill "$job"; done; wait\' EXIT\n';
  const child = spawn('bash', ['--norc', '-c', head + moved], {
    cwd: dir,
    env: { PATH: process.env['PATH'] ?? '', HOME: join(dir, 'home'), SLUICE_URL: `http://127.0.0.1:${ports[0]?.[1]}` },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  killAtExit(child);
  let [out, err] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text;
  });
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  assert.equal(code, 0, `${page} ended with ${code}:\n${out}\n${err}`);
  return out;
}

test('the first steps of the README work as they are written', async () => {
  const out = await run('README.md');
  assert.match(out, /batch_\w+/);
  assert.match(out, /"total":100/);
});

test('the page for those who start works as it is written, to its end', async () => {
  const out = await run('docs/getting-started.md');
  assert.match(out, /^No fault/m);
  assert.match(out, /completed: 10: 0 pending, 10 completed, 0 failed/);
  assert.match(out, /completed \{ total: 3, pending: 0, completed: 3/);
  for (const name of ['Ada', 'Grace', 'Edsger']) assert.match(out, new RegExp(`got \\{ to: '${name}' \\}`));
  assert.equal(out.match(/T0[56]:00:00\.000Z +\d{4}-.*T07:00:00/g)?.length, 5);
});

test('what is not run says why, and links of the documentation lead somewhere', () => {
  const pages = [
    'README.md',
    ...['README', 'getting-started', 'guarantees', 'operations', 'security', 'migration', 'faq'].map((name) => `docs/${name}.md`),
  ];
  for (const page of pages) {
    const text = readFileSync(join(ROOT, page), 'utf8');
    for (const [, link = ''] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^https?:/.test(link)) continue;
      const [path = '', anchor] = link.split('#');
      const file = path === '' ? page : join(page, '..', path);
      assert.ok(existsSync(join(ROOT, file)), `${page}: ${link}`);
      if (anchor !== undefined) assert.ok(anchors(file).has(anchor), `${page}: ${link}`);
    }
  }
});

/** As they are made of headings. */
function anchors(page: string): Set<string> {
  const headings = readFileSync(join(ROOT, page), 'utf8').matchAll(/^#+ (.+)$/gm);
  return new Set(
    [...headings].map(([, text = '']) =>
      text
        .toLowerCase()
        .replace(/[^\w\- ]/g, '')
        .replaceAll(' ', '-'),
    ),
  );
}
