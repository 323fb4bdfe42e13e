// Runs what a page shows, in a shell of its own.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { killAtExit } from '../helpers/redis.ts';

/** What the script printed; fails where a command of it did. `what` names it then; `env` is all that it gets. */
export async function shell(what: string, script: string, cwd: string, env: Record<string, string>): Promise<string> {
  const child = spawn('bash', ['--norc', '-c', `set -eu -o pipefail\n${script}`], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
  killAtExit(child);
  let [out, err] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text;
  });
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  assert.equal(code, 0, `${what}\nended with ${code}:\n${out}\n${err}`);
  return out;
}
