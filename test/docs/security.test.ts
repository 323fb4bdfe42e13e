// docs/security.md: what it says to be shown by a test is.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';

const ROOT = new URL('../../', import.meta.url);

test('every threat is answered by tests that exist', () => {
  const text = readFileSync(new URL('docs/security.md', ROOT), 'utf8');
  const [, rows = ''] = /## Threats, and what is done\n+([^#]*)/.exec(text) ?? [];
  const threats = rows
    .split('\n')
    .filter((row) => row.startsWith('| '))
    .slice(2);
  assert.ok(threats.length > 15);
  for (const row of threats) {
    const shown = row.split(' | ').at(-1) ?? '';
    const files = [...shown.matchAll(/`(test\/[\w./]+)`: ([^|`]+|`\*{3}`)/g)];
    assert.ok(files.length > 0, `no test shows: ${row}`);
    for (const [, file = '', sentences = ''] of files) {
      assert.ok(existsSync(new URL(file, ROOT)), `${file} is not there`);
      const source = readFileSync(new URL(file, ROOT), 'utf8');
      for (const sentence of sentences
        .split(';')
        .map((one) => one.replace(/[|`]/g, '').trim())
        .filter((one) => one !== '')) {
        assert.ok(source.includes(sentence), `${file} does not show that ${sentence}`);
      }
    }
  }
});
