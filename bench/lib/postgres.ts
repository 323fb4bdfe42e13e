// A PostgreSQL of its own in a temporary directory, on a unix socket. It does not run as root, so there it runs as its user.
// Commits are not waited for, as an append-only file that is synced each second is not.
import { execFileSync, spawn } from 'node:child_process';
import { chownSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { cpuSeconds, killAtExit } from './process.ts';

const SETTINGS = {
  listen_addresses: '',
  synchronous_commit: 'off',
  shared_buffers: '1GB',
  wal_level: 'minimal',
  max_wal_senders: '0',
  max_wal_size: '4GB',
  // Its tables are empty whenever nothing is under way, and full when it counts: looked at often, and never compiled for what they are
  // guessed to cost.
  autovacuum_naptime: '1s',
  autovacuum_analyze_threshold: '1000',
  jit: 'off',
};

/** Empty: the user of this process. */
type User = { uid: number; gid: number } | { uid?: never; gid?: never };

export class Postgres {
  readonly url: string;
  readonly #dir: string;
  readonly #bin: string;
  readonly #user: User;
  readonly #forget: () => void;

  private constructor(dir: string, bin: string, user: User) {
    [this.#dir, this.#bin, this.#user] = [dir, bin, user];
    this.url = `postgres://bench@/postgres?host=${encodeURIComponent(dir)}`;
    this.#forget = killAtExit(() => this.#end());
  }

  /** A sentence that says why there is none. */
  static async start(): Promise<Postgres | string> {
    const bin = binaries();
    if (bin === null) return 'PostgreSQL is not installed here';
    const user: User | null = process.getuid?.() === 0 ? userOf('postgres') : {};
    if (user === null) return 'PostgreSQL does not run as root, and there is no user postgres here';
    const dir = mkdtempSync(join(tmpdir(), 'sluice-bench-pg-'));
    if (user.uid !== undefined) chownSync(dir, user.uid, user.gid);
    const data = join(dir, 'data');
    const quiet = { ...user, cwd: dir, stdio: 'ignore' } as const;
    execFileSync(join(bin, 'initdb'), ['-D', data, '-U', 'bench', '-A', 'trust', '--no-sync'], quiet);
    const postgres = new Postgres(dir, bin, user);
    const settings = Object.entries({ ...SETTINGS, unix_socket_directories: dir }).map(([name, value]) => `-c ${name}='${value}'`);
    await new Promise<void>((resolve, reject) => {
      const args = ['-D', data, '-w', '-l', join(dir, 'log'), '-o', settings.join(' '), 'start'];
      const ended = spawn(join(bin, 'pg_ctl'), args, quiet);
      ended.once('error', reject);
      ended.once('exit', (code) => (code === 0 ? resolve() : reject(new Error(readFileSync(join(dir, 'log'), 'utf8')))));
    });
    return postgres;
  }

  /** Of all its processes; those that ended have told their parent. */
  cpu_s(): number {
    const parent = this.#pid();
    const children = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && parentOf(name) === parent);
    return [...children.map(Number), parent].reduce((sum, pid) => sum + cpuSeconds(pid), 0) + endedSeconds(parent);
  }

  async stop(): Promise<void> {
    this.#end();
    this.#forget();
  }

  #pid(): number {
    return Number(readFileSync(join(this.#dir, 'data', 'postmaster.pid'), 'utf8').split('\n')[0]);
  }

  #end(): void {
    try {
      const args = ['-D', join(this.#dir, 'data'), '-m', 'immediate', '-w', 'stop'];
      execFileSync(join(this.#bin, 'pg_ctl'), args, { ...this.#user, cwd: this.#dir, stdio: 'ignore' });
    } catch {
      // It ended already.
    }
    rmSync(this.#dir, { recursive: true, force: true });
  }
}

/** The directory that has both programs; Debian keeps them outside of the PATH. */
function binaries(): string | null {
  const debian = '/usr/lib/postgresql';
  const places = [...(process.env['PATH'] ?? '').split(delimiter), ...entries(debian).map((version) => join(debian, version, 'bin'))];
  const has = (place: string): boolean => ['initdb', 'pg_ctl', 'postgres'].every((name) => entries(place).includes(name));
  return places.find(has) ?? null;
}

function entries(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}

function userOf(name: string): User | null {
  try {
    const id = (flag: string): number => Number(execFileSync('id', [flag, name], { encoding: 'utf8', stdio: 'pipe' }));
    return { uid: id('-u'), gid: id('-g') };
  } catch {
    return null;
  }
}

/** Field 4 of /proc/PID/stat, the name in parentheses aside. */
function parentOf(pid: string): number {
  return Number(fieldsOf(pid)[1]);
}

/** CPU of children that ended and were waited for: cutime and cstime, fields 16 and 17, in the hundredths that Linux counts. */
function endedSeconds(pid: number): number {
  const fields = fieldsOf(String(pid));
  return (Number(fields[13] ?? 0) + Number(fields[14] ?? 0)) / 100;
}

function fieldsOf(pid: string): string[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return [];
  }
}
