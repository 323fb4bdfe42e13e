// What lies in deploy/ is held against its own tools where they are here (kubectl, systemd-analyze, promtool, Compose, Redis itself), and
// against the source: settings, paths and metrics that it names exist.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, normalize } from 'node:path';
import { after, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Webhook } from 'standardwebhooks';
import { parseAllDocuments } from 'yaml';
import { freePort } from '../../bench/lib/ports.ts';
import { judge } from '../../src/cli/doctor-redis.ts';
import { loadConfig } from '../../src/config.ts';
import { OPS_ROUTES } from '../../src/http/ops.ts';
import { ALERTS } from '../../src/metrics/alerts.ts';
import { diagnoseRedis } from '../../src/store/diagnose.ts';
import { killAtExit, startRedis } from '../helpers/redis.ts';

const DEPLOY = fileURLToPath(new URL('../../deploy', import.meta.url));
const ROOT = dirname(DEPLOY);

type Fields = Record<string, unknown>;

function documents(path: string): Fields[] {
  return parseAllDocuments(readFileSync(join(DEPLOY, path), 'utf8'), { merge: true, strict: true, uniqueKeys: true }).map((document) => {
    assert.deepEqual(document.errors, [], path);
    assert.deepEqual(document.warnings, [], path);
    return document.toJS() as Fields;
  });
}

function documentOf<T>(path: string): T {
  return documents(path)[0] as T;
}

const has = (command: string): boolean => (process.env['PATH'] ?? '').split(':').some((place) => existsSync(join(place, command)));

const paths = new Set(OPS_ROUTES.map(({ path }) => path));

test('every YAML file is well-formed, with no key twice', () => {
  const files = readdirSync(DEPLOY, { recursive: true, encoding: 'utf8' }).filter((file) => /\.ya?ml$/.test(file));
  assert.ok(files.length > 8);
  for (const file of files) documents(file);
});

interface Compose {
  services: Record<
    string,
    {
      environment?: Record<string, string>;
      volumes?: string[];
      networks?: string[] | Fields;
      depends_on?: string[] | Fields;
      build?: { context: string; dockerfile: string };
      stop_grace_period?: string;
    }
  >;
  networks: Fields;
  volumes: Fields;
}

const names = (of: string[] | Fields | undefined): string[] => (Array.isArray(of) ? of : Object.keys(of ?? {}));

test('the compose file names services, networks, volumes and files that exist, and settings that the server takes', () => {
  const compose = documentOf<Compose>('compose/compose.yaml');
  for (const [name, service] of Object.entries(compose.services)) {
    for (const network of names(service.networks)) assert.ok(network in compose.networks, `${name}: ${network}`);
    for (const other of names(service.depends_on)) assert.ok(other in compose.services, `${name}: ${other}`);
    for (const volume of service.volumes ?? []) {
      const source = volume.split(':')[0] ?? '';
      if (source.startsWith('.')) assert.ok(existsSync(join(DEPLOY, 'compose', source)), `${name}: ${source}`);
      else assert.ok(source in compose.volumes, `${name}: ${source}`);
    }
    if (service.build !== undefined)
      assert.equal(normalize(join(DEPLOY, 'compose', service.build.context, service.build.dockerfile)), join(DEPLOY, 'Dockerfile'));
  }
  const { environment = {}, stop_grace_period = '' } = compose.services['sluice-1'] ?? {};
  const given = { ...environment, SLUICE_ACCESS_TOKENS: (environment['SLUICE_ACCESS_TOKENS'] ?? '').replace(/\$\{[^}]*\}/, 'x') };
  const config = loadConfig(given);
  assert.ok(Number.parseInt(stop_grace_period, 10) * 1_000 > config.drain_timeout_ms);
});

test('Compose itself takes the file, where it is here', () => {
  const env = { ...process.env, SLUICE_TOKEN: 'x' };
  const file = join(DEPLOY, 'compose/compose.yaml');
  if (has('docker') && spawnSync('docker', ['compose', 'version']).status === 0) {
    execFileSync('docker', ['compose', '-f', file, 'config', '--quiet'], { env, stdio: 'pipe' });
  } else if (has('docker-compose')) {
    // The first one, as Debian has it, does not know the name of a project.
    const input = readFileSync(file, 'utf8').replace(/^name: .*$/m, '');
    const args = ['-f', '-', '--project-directory', dirname(file), 'config', '--quiet'];
    execFileSync('docker-compose', args, { env, input, stdio: 'pipe' });
  }
});

/** On the PATH, or where scripts/setup.sh puts it; null where it is not to be had. */
function promtool(): string | null {
  const own = join(ROOT, '.make/promtool');
  if (has('promtool')) return 'promtool';
  return existsSync(own) ? own : null;
}

test('promtool takes the configuration of Prometheus and every alert', () => {
  const tool = promtool();
  if (tool === null) return;
  const check = (...args: string[]): string =>
    execFileSync(tool, args, { cwd: join(DEPLOY, 'prometheus'), encoding: 'utf8', stdio: 'pipe' });
  assert.match(check('check', 'config', 'prometheus.yml'), /valid prometheus config/);
  const [, rules = ''] = /SUCCESS: (\d+) rules found/.exec(check('check', 'rules', '--lint-fatal', 'sluice.rules.yml')) ?? [];
  assert.equal(Number(rules), Object.keys(ALERTS).length);
});

interface Deployment {
  spec: { template: { spec: { terminationGracePeriodSeconds: number; containers: Container[] } } };
}
interface Container {
  env: { name: string }[];
  startupProbe: Probe;
  livenessProbe: Probe;
  readinessProbe: Probe;
  lifecycle: { preStop: { exec: { command: string[] } } };
}
interface Probe {
  httpGet: { path: string };
}

test('the Kubernetes base holds together, its probes ask what is answered, and its grace is long enough', () => {
  interface Base {
    resources: string[];
    configMapGenerator: { literals: string[] }[];
  }
  const base = documentOf<Base>('kubernetes/base/kustomization.yaml');
  const kinds = base.resources.flatMap((file) => documents(`kubernetes/base/${file}`).map(({ kind }) => kind));
  for (const kind of ['Deployment', 'Service', 'PodDisruptionBudget', 'HorizontalPodAutoscaler']) assert.ok(kinds.includes(kind), kind);
  const { spec } = documentOf<Deployment>('kubernetes/base/deployment.yaml').spec.template;
  const budget = documentOf<{ spec: { selector: { matchLabels: object } } }>('kubernetes/base/pdb.yaml');
  assert.deepEqual(
    budget.spec.selector.matchLabels,
    documentOf<{ labels: { pairs: object }[] }>('kubernetes/base/kustomization.yaml').labels[0]?.pairs,
  );
  const [container] = spec.containers;
  assert.ok(container !== undefined);
  for (const { httpGet } of [container.startupProbe, container.livenessProbe, container.readinessProbe]) assert.ok(paths.has(httpGet.path));
  const literals = base.configMapGenerator.flatMap(({ literals }) => literals.map((literal) => literal.split('=') as [string, string]));
  const config = loadConfig({ ...Object.fromEntries(literals), SLUICE_REDIS_URL: 'redis+cluster://redis-0.redis:6379' });
  for (const { name } of container.env) loadConfig({ [name]: name === 'SLUICE_REDIS_URL' ? 'redis://x' : 'a=b' });
  const [pause_ms = 0] = container.lifecycle.preStop.exec.command
    .flatMap((word) => (/, (\d+)\)/.exec(word)?.[1] ?? []) as string[])
    .map(Number);
  assert.ok(spec.terminationGracePeriodSeconds * 1_000 > config.drain_timeout_ms + pause_ms);
  if (!has('kubectl')) return;
  const built = execFileSync('kubectl', ['kustomize', join(DEPLOY, 'kubernetes/base')], { encoding: 'utf8' });
  assert.equal(built.match(/^kind: /gm)?.length, base.resources.length + 1);
});

test('what scales by a metric names one that exists, in the HPA and in the adapter', () => {
  const metrics = readFileSync(join(ROOT, 'docs/metrics.md'), 'utf8');
  for (const file of ['kubernetes/base/hpa.yaml', 'kubernetes/prometheus-adapter.yaml']) {
    const named = new Set(readFileSync(join(DEPLOY, file), 'utf8').match(/\bsluice_\w+/g));
    assert.equal(named.size, 1);
    for (const name of named) assert.ok(metrics.includes(`\`${name}\``), name);
  }
});

test('the image is made from files that exist and are let in, runs as nobody special, and is asked what it answers', () => {
  const lines = readFileSync(join(DEPLOY, 'Dockerfile'), 'utf8').split('\n');
  const let_in = readFileSync(join(ROOT, '.dockerignore'), 'utf8')
    .split('\n')
    .flatMap((line) => (line.startsWith('!') ? [line.slice(1)] : []));
  const sources = lines.filter((line) => /^COPY (?!--from)/.test(line)).flatMap((line) => line.split(/\s+/).slice(1, -1));
  assert.ok(sources.length > 4);
  const built_by = readFileSync(join(ROOT, 'scripts/build.sh'), 'utf8').match(/scripts\/[\w.-]+/g) ?? [];
  for (const script of built_by) assert.ok(sources.includes(script), script);
  for (const source of sources) {
    assert.ok(existsSync(join(ROOT, source)), source);
    assert.ok(let_in.includes(source), source);
  }
  assert.match(lines.findLast((line) => line.startsWith('USER ')) ?? '', /^USER [1-9]\d*/);
  const [, asked = ''] = /127\.0\.0\.1:8080(\/\w+)/.exec(lines.join('\n')) ?? [];
  assert.ok(paths.has(asked), asked);
});

test('systemd takes the unit, and finds it hardened', () => {
  const unit = join(DEPLOY, 'systemd/sluice.service');
  const text = readFileSync(unit, 'utf8');
  const settings = [...text.matchAll(/\b(SLUICE_\w+)=(\S+)/g)].map(([, name = '', value = '']) => [name, value]);
  loadConfig(Object.fromEntries(settings));
  assert.match(text, /^NoNewPrivileges=yes$/m);
  if (!has('systemd-analyze') || !existsSync('/usr/bin/node')) return;
  execFileSync('systemd-analyze', ['verify', unit], { stdio: 'pipe' });
  // 10 is unprotected, 0 is perfect.
  execFileSync('systemd-analyze', ['security', '--offline=true', '--threshold=20', unit], { stdio: 'pipe' });
});

test('Redis starts with the redis.conf, the doctor has nothing to say of it, and each line has its reason', async () => {
  const conf = join(DEPLOY, 'redis/redis.conf');
  const { path } = await startRedis({ args: ['--include', conf] });
  const [redis] = await diagnoseRedis(`unix://${path}`, '');
  assert.ok(redis !== undefined);
  assert.deepEqual(
    judge(redis).filter(({ state }) => state !== 'ok'),
    [],
  );
  // A block of settings follows a comment.
  const lines = readFileSync(conf, 'utf8').split('\n');
  const bare = lines.filter((line, n) => line !== '' && !line.startsWith('#') && (lines[n - 1] ?? '') === '');
  assert.deepEqual(bare, []);
});

test('the example receiver takes what is signed with its secret, and nothing else', async () => {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-receiver-'));
  after(() => rmSync(dir, { recursive: true, force: true }));
  const port = await freePort();
  const secret = `whsec_${Buffer.from('an example of a secret, 24 by').toString('base64')}`;
  const child = spawn(process.execPath, ['--import', 'tsx', join(DEPLOY, 'compose/receiver.js')], {
    cwd: ROOT,
    env: { ...process.env, RECEIVER_SECRET: secret, RECEIVER_PORT: String(port), RECEIVER_CLIENT: join(ROOT, 'src/client/index.ts') },
  });
  killAtExit(child);
  await new Promise((done) => child.stdout.once('data', done));
  const body = '{"n":1}';
  const at = new Date();
  const signature = new Webhook(secret).sign('task_1', at, body);
  const headers = { 'webhook-id': 'task_1', 'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)), 'webhook-signature': signature };
  const call = async (sent: string): Promise<number> =>
    (await fetch(`http://127.0.0.1:${port}/x`, { method: 'POST', headers, body: sent })).status;
  assert.deepEqual([await call(body), await call('{"n":2}')], [200, 401]);
  child.kill('SIGTERM');
});
