// The doctor's look at this machine: what Sluice needs of it, and what Redis needs where it runs here too.
import { lookup } from 'node:dns/promises';
import { existsSync, readFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { dirname, resolve } from 'node:path';
import { type Finding, fault, ok, warning } from './finding.ts';
import { bytes } from './output.ts';

const NODE_MIN = 20;
/** What the binary of the HTTP library is linked against. */
const GLIBC_MIN = [2, 28] as const;
/** Connections to targets and from clients, with room. */
const FILES_MIN = 16_384;
const DISK_BYTES_MIN = 1_073_741_824;
const DNS_MS_MAX = 500;

export async function checkMachine(name: string, env: NodeJS.ProcessEnv): Promise<Finding[]> {
  const here = (env['SLUICE_REDIS_URL'] ?? '') === '';
  const findings = [node(), await library(), glibc(), files(), cores(), await dns(name)];
  return [...findings, ...(here ? [...kernel(), await disk(env['SLUICE_DATA_DIR'] || './data')] : [])].filter((one) => one !== null);
}

function node(): Finding {
  const version = process.versions.node;
  if (Number(version.split('.')[0]) >= NODE_MIN) return ok('node', version);
  return fault('node', version, `Install Node ${NODE_MIN} or newer.`);
}

/** The HTTP server is a binary for each platform and version of Node. */
async function library(): Promise<Finding> {
  try {
    await import('../http/uws.ts');
    return ok('uWebSockets.js', `loads on ${process.platform}-${process.arch}, ABI ${process.versions.modules}`);
  } catch (error) {
    const found = error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error);
    return fault(
      'uWebSockets.js',
      found,
      'Run `make setup` again with this Node, or use a version that has a binary: Node 20, 22 or 24 on glibc.',
    );
  }
}

function glibc(): Finding | null {
  if (process.platform !== 'linux') return null;
  const report = process.report.getReport() as unknown as { header?: { glibcVersionRuntime?: string } };
  const version = report.header?.glibcVersionRuntime;
  if (version === undefined)
    return fault('glibc', 'none: this looks like musl (Alpine)', 'Use an image with glibc, such as node:22-bookworm-slim.');
  const [major = 0, minor = 0] = version.split('.').map(Number);
  const enough = major > GLIBC_MIN[0] || (major === GLIBC_MIN[0] && minor >= GLIBC_MIN[1]);
  return enough
    ? ok('glibc', version)
    : fault('glibc', version, `The HTTP library needs glibc ${GLIBC_MIN.join('.')} or newer: use a newer distribution.`);
}

function files(): Finding | null {
  const [, soft = '', hard = ''] = /^Max open files\s+(\S+)\s+(\S+)/m.exec(read('/proc/self/limits')) ?? [];
  if (soft === '') return null;
  // Node raises the soft limit to the hard one when it starts.
  if (soft === 'unlimited' || Number(soft) >= FILES_MIN) return ok('open files', soft);
  return warning(
    'open files',
    `${soft} (hard limit ${hard})`,
    `Each connection is one: \`ulimit -n 65536\`, or LimitNOFILE=65536 in the unit.`,
  );
}

function cores(): Finding {
  const count = availableParallelism();
  if (count > 1) return ok('cores', String(count));
  return warning('cores', '1', 'The API and the callback thread share it; give it two or more where calls are many.');
}

async function dns(name: string): Promise<Finding> {
  const began = performance.now();
  try {
    const addresses = await lookup(name, { all: true });
    const took_ms = performance.now() - began;
    const found = `${name} is ${addresses
      .map(({ address }) => address)
      .slice(0, 3)
      .join(', ')} (${took_ms.toFixed(0)} ms)`;
    return took_ms <= DNS_MS_MAX ? ok('dns', found) : warning('dns', found, 'The resolver is slow: run a caching one on this machine.');
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    return fault('dns', `${name} cannot be resolved: ${code}`, 'Look at /etc/resolv.conf, and whether the name is right.');
  }
}

/** What Redis warns of when it starts. */
function kernel(): (Finding | null)[] {
  const overcommit = read('/proc/sys/vm/overcommit_memory').trim();
  const huge = read('/sys/kernel/mm/transparent_hugepage/enabled');
  return [
    overcommit === '' || overcommit === '1'
      ? null
      : warning(
          'overcommit',
          `vm.overcommit_memory is ${overcommit}: rewriting the append-only file may fail`,
          'sysctl vm.overcommit_memory=1, and in /etc/sysctl.d/.',
        ),
    huge.includes('[always]')
      ? warning(
          'huge pages',
          'transparent huge pages are on: Redis stalls when it forks',
          'echo madvise >/sys/kernel/mm/transparent_hugepage/enabled',
        )
      : null,
  ];
}

async function disk(data_dir: string): Promise<Finding> {
  let place = resolve(data_dir);
  while (!existsSync(place)) place = dirname(place);
  const { bavail, bsize } = await statfs(place);
  const found = `${bytes(bavail * bsize)} free at ${place}`;
  if (bavail * bsize >= DISK_BYTES_MIN) return ok('disk', found);
  return warning('disk', found, 'The append-only file grows before it is rewritten: make room, or set SLUICE_DATA_DIR.');
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
