// What a test starts as a process of its own.
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const TSX = `${ROOT}node_modules/tsx/dist/loader.mjs`;

/**
 * Node's arguments for `src/<name>.ts`, or for what was built from it where TEST_DIST names the directory: `make` does so,
 * since that starts in a fraction of the time. Good in any working directory.
 */
export function programArgs(name: 'main' | 'cli', node_args: readonly string[] = []): string[] {
  const dist = process.env['TEST_DIST'];
  return dist === undefined ? ['--import', TSX, ...node_args, `${ROOT}src/${name}.ts`] : [...node_args, `${ROOT}${dist}/${name}.js`];
}
