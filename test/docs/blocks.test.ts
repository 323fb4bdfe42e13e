// The blocks of README.md and of the pages in docs/ hold what they say. Commands are run as they are written, in their order, in one shell
// a page, with an empty HOME, beside a server like that of `make start`; everything else is checked by its kind. A block that is neither
// says why, on its page or in UNCHECKED.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parse as parseYaml } from 'yaml';
import { freePorts } from '../../bench/lib/ports.ts';
import { usage } from '../../src/cli/help.ts';
import { COMMANDS } from '../../src/cli/table.ts';
import { loadConfig } from '../../src/config.ts';
import { ALERTS } from '../../src/metrics/alerts.ts';
import { api } from '../helpers/api.ts';
import { dataDir, startEngine, TOKENS } from '../helpers/engine.ts';
import { shell } from './shell.ts';

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
  const [port, receiver] = await freePorts(2);
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
  const head = 'trap \'for job in $(jobs -p); do kill "$job"; done; wait\' EXIT\n';
  const env = { PATH: process.env['PATH'] ?? '', HOME: join(dir, 'home'), SLUICE_URL: `http://127.0.0.1:${ports[0]?.[1]}` };
  return shell(page, head + moved, dir, env);
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

test('schedules fire where their page says, over both changes of the clock', async () => {
  const out = await run('docs/schedules.md');
  const [said] = blocksOf('docs/schedules.md').filter(({ text }) => text.startsWith('"local_time"'));
  assert.ok(said !== undefined && out.includes(said.text), out);
  assert.match(out, /"local_time":"2027-01-31T00:00:00/);
});

test('the page about scaling reckons, and puts a load on the server', async () => {
  const out = await run('docs/scaling.md');
  assert.match(out, /^partitions +\d+/m);
  assert.match(out, /^tasks +500 completed, 0 failed$/m);
});

test('what the page about limiters asks is answered as it should be', async () => {
  const engine = await startEngine();
  const client = api(engine, TOKENS.acme);
  const [block] = blocksOf('docs/limiters.md').filter(({ language }) => language === 'http');
  const lines = block?.text.trim().split('\n') ?? [];
  assert.ok(lines.length > 1);
  for (const line of lines) {
    const [, method = '', path = '', body = ''] = /^(\w+) (\S+) +(\{.*\})$/.exec(line) ?? [];
    const { status, text } = await client.ask(method, path, { body: JSON.parse(body) });
    assert.equal(status, 201, `${line}: ${text}`);
  }
});

const PAGES = [
  'README.md',
  ...readdirSync(join(ROOT, 'docs'), { encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];
/** Whose commands are run by the tests above, and by test/docs/api.test.ts. */
const RUN = ['README.md', 'docs/getting-started.md', 'docs/schedules.md', 'docs/scaling.md', 'docs/api.md'];
/** What nothing here can check, and why. */
const UNCHECKED: Record<string, string> = { nginx: 'Sluice does not need it, so it is not there' };
const PICTURE = /[─│┌└▶◀▲▼■]/;

/** What is wrong with a block that is not run; null for nothing. */
const CHECKS: Record<string, (text: string, page: string) => unknown> = {
  sh: (_, page) => assert.ok(RUN.includes(page), 'commands that nobody runs'),
  json: (text) => JSON.parse(text),
  yaml: (text) => parseYaml(text),
  // Run above.
  http: (_, page) => assert.equal(page, 'docs/limiters.md'),
  ini: (text) => {
    const lines = text.trim().split('\n');
    const settings = lines.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]);
    const known = readFileSync(join(ROOT, 'docs/config.md'), 'utf8');
    for (const [name] of settings) assert.ok(known.includes(`\`${name}\``), name);
    loadConfig(Object.fromEntries(settings));
  },
  promql: (text) =>
    assert.ok(
      Object.values(ALERTS).some(({ expr }) => expr === text.trim()),
      'no alert has this expression',
    ),
  diff: (text) => {
    const manifest = readFileSync(join(ROOT, 'package.json'), 'utf8');
    for (const [, line = ''] of text.matchAll(/^-(.*)$/gm)) assert.ok(manifest.includes(line), line);
  },
  // A picture; how a command is used; the folders of the source; or what the page's commands print.
  '': (text, page) => {
    if (PICTURE.test(text)) return;
    if (page === 'docs/cli.md') assert.ok(COMMANDS.some((command) => `${usage(command)}\n` === text));
    else if (page === 'README.md')
      for (const [, folder = ''] of text.matchAll(/^(\w+\/) /gm)) assert.ok(existsSync(join(ROOT, folder)), folder);
    else assert.ok(page === 'docs/schedules.md' && text.startsWith('"local_time"'), 'a block of no kind');
  },
};

for (const page of PAGES) {
  test(`every block of ${page} is run or checked, or says why not, and its links lead somewhere`, () => {
    for (const { line, language, text, reason } of blocksOf(page)) {
      if (reason !== null || UNCHECKED[language] !== undefined) continue;
      const check = CHECKS[language] ?? assert.fail(`${page}:${line}: nobody checks ${language}`);
      assert.doesNotThrow(() => check(text, page), `${page}:${line}`);
    }
    const text = readFileSync(join(ROOT, page), 'utf8');
    for (const [, link = ''] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^https?:/.test(link)) continue;
      const [path = '', anchor] = link.split('#');
      const file = path === '' ? page : join(page, '..', path);
      assert.ok(existsSync(join(ROOT, file)), `${page}: ${link}`);
      if (anchor !== undefined) assert.ok(anchors(file).has(anchor), `${page}: ${link}`);
    }
  });
}

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
