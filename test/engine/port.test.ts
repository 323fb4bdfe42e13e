// The ports of a server: one that serves the API cannot do without, and any may have one more, for its health and metrics.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { after, test } from 'node:test';
import { dataDir, startEngine, TOKENS } from '../helpers/engine.ts';
import { programArgs } from '../helpers/program.ts';
import { startReceiver } from '../helpers/receiver.ts';
import { until } from '../helpers/redis.ts';

const LISTENS = '"msg":"listening for health and metrics"';

type Asked = [status: number, body: string];

async function ask(url: string, headers: Record<string, string> = {}): Promise<Asked> {
  const response = await fetch(url, { headers });
  return [response.status, await response.text()];
}

function urlIn(lines: readonly string[]): string {
  return (JSON.parse(lines.find((line) => line.includes(LISTENS)) ?? assert.fail(lines.join('\n'))) as { url: string }).url;
}

/** That port tells how the process is, and nothing else. */
async function opsOnly(url: string): Promise<void> {
  assert.deepEqual(await ask(`${url}/healthz`), [200, '{"status":"ok"}']);
  assert.equal((await ask(`${url}/metrics`))[0], 401);
  const [status, metrics] = await ask(`${url}/metrics`, { authorization: 'Bearer scraper' });
  assert.equal(status, 200);
  assert.match(metrics, /^sluice_build_info\{/m);
  for (const path of ['/', '/v1/batches', '/docs', '/openapi.json']) {
    const [code, body] = await ask(url + path);
    assert.deepEqual([code, /"code":"not_found"/.test(body)], [404, true], path);
  }
}

test('where its port is in use a server ends at once', async () => {
  const { url } = await startEngine();
  for (const name of ['SLUICE_PORT', 'SLUICE_OPS_PORT']) {
    await assert.rejects(startEngine({ env: { [name]: new URL(url).port } }), /the engine ended at once:[\s\S]*the port is in use/, name);
  }
});

test('SLUICE_OPS_PORT is one for health and metrics beside that of the API', async () => {
  const { url, logs, stop } = await startEngine({ env: { SLUICE_OPS_PORT: '0', SLUICE_METRICS_TOKEN: 'scraper' } });
  await opsOnly(urlIn(logs()));
  const ops = urlIn(logs());
  assert.deepEqual(await ask(`${ops}/readyz`), await ask(`${url}/readyz`));
  // A drain can be watched there to its end.
  const receiver = await startReceiver();
  const body = JSON.stringify({ target: receiver.at('/held', { hold: true }) });
  const headers = { authorization: `Bearer ${TOKENS.acme}`, 'content-type': 'application/json' };
  assert.equal((await fetch(`${url}/v1/tasks`, { method: 'POST', headers, body })).status, 201);
  await receiver.heard('/held', 1);
  const ended = stop();
  await until(async () => (await ask(`${ops}/readyz`))[0] === 503, 5_000, 'the drain');
  assert.match((await ask(`${ops}/readyz`))[1], /"threads":"stopping"/);
  assert.equal((await ask(`${ops}/healthz`))[0], 200);
  receiver.release('/held');
  assert.equal(await ended, 0);
});

test('and all that a process without the role api listens on', async () => {
  const own = { SLUICE_ROLES: 'callbacks,cron', SLUICE_OPS_PORT: '0', SLUICE_METRICS_TOKEN: 'scraper', SLUICE_DATA_DIR: dataDir() };
  const child = spawn(process.execPath, programArgs('main'), { env: { ...process.env, ...own }, stdio: ['ignore', 'pipe', 'inherit'] });
  after(() => child.kill('SIGKILL'));
  const exited = once(child, 'exit');
  let ready: Asked = [0, ''];
  for await (const line of createInterface({ input: child.stdout })) {
    if (!line.includes(LISTENS)) continue;
    const url = urlIn([line]);
    await opsOnly(url);
    const deadline_ms = Date.now() + 10_000;
    do ready = await ask(`${url}/readyz`);
    while (ready[0] === 503 && Date.now() < deadline_ms);
    child.kill('SIGTERM');
  }
  assert.deepEqual(ready, [200, '{"status":"ok","checks":{"redis":"ok","threads":"ok"}}']);
  assert.deepEqual(await exited, [0, null]);
});
