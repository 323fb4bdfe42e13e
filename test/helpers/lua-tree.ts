import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after } from 'node:test';

/** A directory with these files below `lua`; gone after the test. */
export function treeOf(files: Record<string, string>): string {
  const root = mkdtempSync(join(tmpdir(), 'sluice-lua-'));
  after(() => rmSync(root, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, 'lua', name)), { recursive: true });
    writeFileSync(join(root, 'lua', name), text);
  }
  return root;
}
