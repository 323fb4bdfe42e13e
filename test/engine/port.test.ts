// The port of a server: one that serves the API cannot do without; others tell there how they are.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { after, test } from 'node:test';
import { dataDir, startEngine } from '../helpers/engine.ts';
import { programArgs } from '../helpers/program.ts';

test('where its port is in use a server ends at once', async () => {
  const { url } = await startEngine();
  const env = { SLUICE_PORT: new URL(url).port };
  await assert.rejects(startEngine({ env }), /the engine ended at once:[\s\S]*the port is in use/);
});

test('a process without the role api tells its health and metrics, and serves nothing else', async () => {
  const { url, stop } = await startEngine({ env: { SLUICE_ROLES: 'callbacks,cron', SLUICE_METRICS_TOKEN: 'scraper' } });
  const status = async (path: string, headers: Record<string, string> = {}): Promise<[number, string]> => {
    const response = await fetch(url + path, { headers });
    return [response.status, await response.text()];
  };
  assert.deepEqual(await status('/readyz'), [200, '{"status":"ok","checks":{"redis":"ok","threads":"ok"}}']);
  assert.deepEqual(await status('/healthz'), [200, '{"status":"ok"}']);
  assert.equal((await status('/metrics'))[0], 401);
  const [found, metrics] = await status('/metrics', { authorization: 'Bearer scraper' });
  assert.equal(found, 200);
  assert.match(metrics, /^sluice_threads\{pool="callbacks"\} [1-9]/m);
  for (const path of ['/', '/v1/batches', '/docs']) {
    const [code, body] = await status(path);
    assert.deepEqual([code, /"code":"not_found"/.test(body)], [404, true], path);
  }
  assert.equal(await stop(), 0);
});

test('and where its port is in use it works on without', async () => {
  const { url } = await startEngine();
  const env = {
    ...process.env,
    SLUICE_ROLES: 'cron',
    SLUICE_PORT: new URL(url).port,
    SLUICE_DATA_DIR: dataDir(),
    SLUICE_LOG_LEVEL: 'info',
  };
  const child = spawn(process.execPath, programArgs('main'), { env, stdio: ['ignore', 'pipe', 'inherit'] });
  after(() => child.kill('SIGKILL'));
  const exited = once(child, 'exit');
  let warning = '';
  for await (const line of createInterface({ input: child.stdout })) {
    if (!line.includes('SLUICE_PORT of its own')) continue;
    warning = line;
    child.kill('SIGTERM');
  }
  assert.match(warning, /the port is in use/);
  assert.deepEqual(await exited, [0, null]);
});
