// The client as another project has it: by the name of the package, after `npm install` of a clone that was built.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const PROGRAM = `
import { createClient, SluiceError, verifyWebhook, type Batch } from 'sluice/client';
const client = createClient({ base_url: 'http://127.0.0.1:1', token: 'x' });
export async function statusOf(id: string): Promise<Batch['status']> {
  const batch = await client.getBatch(id);
  // @ts-expect-error: no such field
  batch.nothing;
  return batch.status;
}
console.log(typeof client.watch, typeof SluiceError, typeof verifyWebhook);
`;

function project(): string {
  assert.ok(existsSync(join(ROOT, 'dist/client/index.d.ts')), 'make build comes first');
  const dir = mkdtempSync(join(tmpdir(), 'sluice-client-'));
  after(() => rmSync(dir, { recursive: true, force: true }));
  mkdirSync(join(dir, 'node_modules'));
  symlinkSync(ROOT, join(dir, 'node_modules/sluice'));
  writeFileSync(join(dir, 'package.json'), '{"type": "module"}');
  writeFileSync(join(dir, 'program.ts'), PROGRAM);
  return dir;
}

test('sluice/client is found by its name, with its types, for Node and for bundlers', () => {
  const cwd = project();
  const tsc = join(ROOT, 'node_modules/.bin/tsc');
  const strict = ['--strict', '--skipLibCheck', 'false', '--target', 'es2022', '--lib', 'es2022,dom', '--types', ''];
  const run = (command: string, ...args: string[]): string => execFileSync(command, args, { cwd, encoding: 'utf8', stdio: 'pipe' });
  run(tsc, ...strict, '--noEmit', '--module', 'esnext', '--moduleResolution', 'bundler', 'program.ts');
  run(tsc, ...strict, '--module', 'nodenext', 'program.ts');
  assert.equal(run(process.execPath, 'program.js'), 'function function function\n');
});
