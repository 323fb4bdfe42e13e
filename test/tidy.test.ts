// The rules of the house that a machine can check: who imports whom, how long a file may be, what stays out.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { isBuiltin } from 'node:module';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';

// In the order in which data flows. A file imports from its own room and from rooms further left; rooms of one row do
// not import one another. Files directly in src (main, cli, config …) wire the rooms together and come last, the commands of
// the command line with them.
const ROOMS = [
  ['base'],
  ['schema'],
  ['metrics'],
  ['tracing'],
  ['store'],
  ['outbound'],
  ['threads'],
  ['limiters', 'schedules', 'delivery', 'streams'],
  ['api'],
  ['http'],
];
// Stand beside the server: they see of it only generated types, the page also the client.
const APART: Record<string, string[]> = { client: [], dashboard: ['client'] };
const COMMANDS = 'cli';

/** Who may import which library; those that only develop with one (tests, scripts, bench) are free. */
const LIBRARIES: Record<string, string> = {
  pino: 'base',
  ajv: 'schema',
  'ajv-formats': 'schema',
  'prom-client': 'metrics',
  '@opentelemetry/api': 'tracing',
  '@opentelemetry/exporter-trace-otlp-http': 'tracing',
  '@opentelemetry/resources': 'tracing',
  '@opentelemetry/sdk-trace': 'tracing',
  ioredis: 'store',
  undici: 'outbound',
  piscina: 'threads',
  luxon: 'schedules',
  'cron-parser': 'schedules',
  'uWebSockets.js': 'http',
  'uWebSockets.js-next': 'http',
  preact: 'dashboard',
  uplot: 'dashboard',
  vite: 'dashboard',
};

const LINES_MAX = 400;

// Written in pieces, since this file is looked at too: places that exist on one machine only, and hosts that a mirror replaces.
const FORBIDDEN = [
  ['/wor', 'k/'],
  ['.lib', 'rary/'],
  ['registry.', 'npmjs'],
  ['deb.', 'debian.org'],
  ['/tmp/', 'plan'],
].map((parts) => parts.join(''));

const files = listFiles();
const sources = files.filter((file) => /^src\/.*\.tsx?$/.test(file));
const read = (file: string): string => readFileSync(file, 'utf8');

test('every folder of src is a room of the house', () => {
  const known = [...ROOMS.flat(), ...Object.keys(APART), COMMANDS];
  const rooms = new Set(sources.map(roomOf).filter((room) => room !== ''));
  assert.deepEqual(
    [...rooms].filter((room) => !known.includes(room)),
    [],
  );
});

test('a room imports only from itself and from rooms to its left', () => {
  const wrong = sources.flatMap((file) =>
    importsOf(file)
      .filter((spec) => spec.startsWith('.'))
      .map((spec) => normalize(join(dirname(file), spec)))
      .filter((target) => !mayImport(file, target))
      .map((target) => `${file} must not import ${target}`),
  );
  assert.deepEqual(wrong, []);
});

test('a library is imported in one room', () => {
  const wrong = sources.flatMap((file) =>
    importsOf(file)
      .filter((spec) => !spec.startsWith('.') && !isBuiltin(spec))
      .map((spec) => spec.split('/', spec.startsWith('@') ? 2 : 1).join('/'))
      .filter((library) => LIBRARIES[library] !== roomOf(file))
      .map((library) => `${file} must not import ${library}: ${LIBRARIES[library] ?? 'no room'} does`),
  );
  assert.deepEqual(wrong, []);
});

test(`no file is longer than ${LINES_MAX} lines`, () => {
  const long = files.filter(
    (file) => /\.(tsx?|lua|js|sh|css)$/.test(file) && !file.includes('.gen.') && read(file).split('\n').length > LINES_MAX + 1,
  );
  assert.deepEqual(long, []);
});

test('no Lua script reads its keys or arguments by number', () => {
  const wrong = files.filter((file) => file.endsWith('.lua') && /\b(KEYS|ARGV)\s*\[/.test(read(file)));
  assert.deepEqual(wrong, []);
});

test('no file names a place that only one machine has', () => {
  const wrong = files.flatMap((file) => {
    const text = read(file);
    return FORBIDDEN.filter((word) => text.includes(word)).map((word) => `${file} says ${word}`);
  });
  assert.deepEqual(wrong, []);
});

test('no drawer for whatever has no place', () => {
  const drawers = files.filter((file) =>
    /(^|\/)(utils?|common|misc|helpers?)\.[a-z]+$|^src\/.*\/(utils?|common|misc|helpers?)\//.test(file),
  );
  assert.deepEqual(drawers, []);
});

test('no test is left out', () => {
  const marks = /\b(?:test|it|describe|suite|t)\.(?:only|skip|todo)\b|[{,]\s*(?:only|skip|todo)\s*:/;
  const wrong = files.filter((file) => /^test\/.*\.ts$/.test(file) && marks.test(read(file)));
  assert.deepEqual(wrong, []);
});

/** The room of a file in src; '' for the files directly in it. */
function roomOf(file: string): string {
  const parts = file.split('/');
  return parts.length > 2 ? (parts[1] ?? '') : '';
}

function mayImport(file: string, target: string): boolean {
  const [from, to] = [roomOf(file), roomOf(target)];
  if (from === to) return true;
  const apart = APART[from];
  if (apart !== undefined) return apart.includes(to) || /^src\/schema\/[^/]*\.gen\.ts$/.test(target);
  if (from === '' || from === COMMANDS) return target.startsWith('src/');
  const place = (room: string): number => ROOMS.findIndex((row) => row.includes(room));
  return to !== '' && place(to) !== -1 && place(to) < place(from);
}

/** What a file imports, in any of the ways a module can be named. */
function importsOf(file: string): string[] {
  // A doc comment may show an import.
  const text = read(file).replaceAll(/^\s*(\/\/|\*|\/\*).*$/gm, '');
  const named = [...text.matchAll(/\bfrom '([^']+)'|\bimport '([^']+)'|\bimport\('([^']+)'\)|\brequire\('([^']+)'\)/g)];
  return named.map(([, a, b, c, d]) => a ?? b ?? c ?? d ?? '');
}

/** What git would commit; outside a checkout, all but what is installed or built. Binary files are not looked at. */
function listFiles(): string[] {
  const text = (file: string): boolean => !/\.(png|ico|woff2?|gz|svg)$|^package-lock\.json$/.test(file);
  try {
    const listed = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], { encoding: 'utf8', stdio: 'pipe' });
    const deleted = execFileSync('git', ['ls-files', '--deleted'], { encoding: 'utf8', stdio: 'pipe' }).split('\n');
    return listed.split('\n').filter((file) => file !== '' && !deleted.includes(file) && text(file));
  } catch {
    const skipped = /^(node_modules|dist|dist\.next|data|\.make|\.git)(\/|$)/;
    const entries = readdirSync('.', { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    return entries.map((entry) => join(entry.parentPath, entry.name)).filter((file) => !skipped.test(file) && text(file));
  }
}
