// What the build puts together (docs/decisions/0066): a thread loads what it needs and no more, and nothing runs that `make audit` does not look at.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const DIST = join(ROOT, 'dist');

/** Of `file` and all that it imports as it is loaded: the files that they were made of, from the root of the checkout. */
function sourcesOf(file: string, seen = new Set<string>()): string[] {
  if (seen.has(file)) return [];
  seen.add(file);
  const code = readFileSync(join(DIST, file), 'utf8');
  const chunks = [...code.matchAll(/^(?:import|export|\} from) ?.*"\.\/([^"]+\.js)";$/gm)].map(([, chunk = '']) => chunk);
  const { sources } = JSON.parse(readFileSync(join(DIST, `${file}.map`), 'utf8')) as { sources: string[] };
  return [...sources.map((source) => source.replace('../', '')), ...chunks.flatMap((chunk) => sourcesOf(chunk, seen))];
}

function packagesOf(sources: readonly string[]): Set<string> {
  const names = sources.map((source) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(source)?.[1]);
  return new Set(names.filter((name) => name !== undefined));
}

test('a thread loads what it needs, and none of what only others need', () => {
  assert.ok(existsSync(join(DIST, 'main.js')), 'make build comes first');
  const loads = (file: string): Set<string> => packagesOf(sourcesOf(file));
  const callbacks = loads('callbacks.thread.js');
  assert.ok(callbacks.has('undici') && callbacks.has('ioredis') && !callbacks.has('luxon'), [...callbacks].join());
  const cron = loads('cron.thread.js');
  assert.ok(cron.has('luxon') && cron.has('ioredis') && !cron.has('undici'), [...cron].join());
  const streams = loads('streams.thread.js');
  assert.ok(streams.has('ioredis') && !streams.has('undici') && !streams.has('luxon'), [...streams].join());
  assert.ok(loads('intake.large.thread.js').has('ioredis'));
  // With ioredis beside it, V8 takes half as much time again for the same work.
  assert.deepEqual([...loads('intake.thread.js')], []);
  assert.ok(sourcesOf('intake.thread.js').includes('src/api/prepare.ts'));
});

test('a command that asks a server loads neither Redis, scripts nor what writes logs', () => {
  const cli = sourcesOf('cli.js');
  assert.deepEqual([...packagesOf(cli)], []);
  assert.ok(cli.includes('src/cli/batch.ts') && cli.includes('src/client/transport.ts'), cli.join());
  assert.deepEqual(
    cli.filter((source) => /scripts\.gen|connect/.test(source)),
    [],
  );
});

test('no package that only development needs is in what runs', () => {
  const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { dev?: true }>;
  };
  const programs = readdirSync(DIST).filter((file) => file.endsWith('.js'));
  const bundled = packagesOf(programs.flatMap((file) => sourcesOf(file)));
  assert.ok(bundled.has('ioredis'));
  assert.deepEqual(
    [...bundled].filter((name) => packages[`node_modules/${name}`]?.dev === true),
    [],
  );
});
