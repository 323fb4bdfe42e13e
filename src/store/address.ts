// Reads SLUICE_REDIS_URL into what a connection needs: plain data, so that a worker thread can be handed it.
//
//   redis://[user:pass@]host[:port][/db]      rediss:// with TLS
//   unix:///path/to/socket[?db=n]
//   redis+sentinel://[user:pass@]h1:p1,h2:p2/master-name[/db][?sentinel_username=…&sentinel_password=…]
//   redis+cluster://[user:pass@]h1:p1,h2:p2   rediss+sentinel://, rediss+cluster:// with TLS

export interface Host {
  host: string;
  port: number;
}

interface Login {
  username: string | null;
  password: string | null;
  tls: boolean;
}

export type ConnectionSpec =
  | ({ kind: 'single'; path: string | null; host: string; port: number; db: number } & Login)
  | ({
      kind: 'sentinel';
      sentinels: Host[];
      master: string;
      db: number;
      sentinel_username: string | null;
      sentinel_password: string | null;
    } & Login)
  | ({ kind: 'cluster'; nodes: Host[] } & Login);

export type StoreKind = ConnectionSpec['kind'];

const REDIS_PORT = 6_379;
const SENTINEL_PORT = 26_379;
const HOSTS_MAX = 64;
const DB_MAX = 1_023;
const SHAPE = /^(redis|rediss|redis\+sentinel|rediss\+sentinel|redis\+cluster|rediss\+cluster|unix):\/\/([^/?#]*)(\/[^?#]*)?(\?[^#]*)?$/;

/** Throws an Error that says what is wrong with `url`, without quoting it: it may hold a password. */
export function parseRedisUrl(url: string): ConnectionSpec {
  const match = SHAPE.exec(url);
  if (match === null) {
    throw new Error('must begin with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://');
  }
  const [, scheme = '', authority = '', path = '', query = ''] = match;
  const params = new URLSearchParams(query);
  if (scheme === 'unix') return unixSpec(authority, path, params);

  const tls = scheme.startsWith('rediss');
  const at = authority.lastIndexOf('@');
  const login = { ...readLogin(at < 0 ? '' : authority.slice(0, at)), tls };
  const hosts = authority.slice(at + 1);
  const parts = path.split('/').filter((part) => part !== '');
  if (scheme.endsWith('+cluster')) {
    allowParams(params, []);
    if (parts.length > 0) throw new Error('a Cluster has no databases: end the address after the last port');
    return { kind: 'cluster', nodes: readHosts(hosts, REDIS_PORT), ...login };
  }
  if (scheme.endsWith('+sentinel')) {
    allowParams(params, ['sentinel_username', 'sentinel_password']);
    const [master, db, ...rest] = parts;
    if (master === undefined || rest.length > 0) throw new Error('with Sentinel, the name of the master must follow: …/master-name');
    return {
      kind: 'sentinel',
      sentinels: readHosts(hosts, SENTINEL_PORT),
      master: decode(master),
      db: readDb(db),
      sentinel_username: params.get('sentinel_username'),
      sentinel_password: params.get('sentinel_password'),
      ...login,
    };
  }
  allowParams(params, []);
  const [host, ...others] = readHosts(hosts, REDIS_PORT);
  if (host === undefined || others.length > 0) throw new Error('several hosts need redis+cluster:// or redis+sentinel://');
  if (parts.length > 1) throw new Error('only a database number may follow the host');
  return { kind: 'single', path: null, ...host, db: readDb(parts[0]), ...login };
}

/** The spec of a server behind a unix socket. */
export function socketSpec(path: string, db = 0): ConnectionSpec {
  return { kind: 'single', path, host: '', port: 0, db, username: null, password: null, tls: false };
}

/** For messages: where it points to, without credentials. */
export function describe(spec: ConnectionSpec): string {
  const list = (hosts: Host[]): string => hosts.map(({ host, port }) => `${host}:${port}`).join(',');
  if (spec.kind === 'cluster') return `the Redis Cluster at ${list(spec.nodes)}`;
  if (spec.kind === 'sentinel') return `the master "${spec.master}" of the Sentinels at ${list(spec.sentinels)}`;
  return spec.path === null ? `the Redis at ${spec.host}:${spec.port}` : `the Redis at ${spec.path}`;
}

function unixSpec(authority: string, path: string, params: URLSearchParams): ConnectionSpec {
  allowParams(params, ['db']);
  if (authority !== '' || path === '') throw new Error('a socket is given as unix:///path/to/socket');
  return socketSpec(decode(path), readDb(params.get('db') ?? undefined));
}

function readLogin(text: string): { username: string | null; password: string | null } {
  if (text === '') return { username: null, password: null };
  const colon = text.indexOf(':');
  const username = colon < 0 ? text : text.slice(0, colon);
  return { username: username === '' ? null : decode(username), password: colon < 0 ? null : decode(text.slice(colon + 1)) };
}

function readHosts(text: string, default_port: number): Host[] {
  const items = text.split(',');
  if (items.length > HOSTS_MAX) throw new Error(`names more than ${HOSTS_MAX} hosts`);
  return items.map((item) => {
    const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([^:[\]@\s]+))(?::(\d{1,5}))?$/.exec(item.trim());
    const host = match?.[1] ?? match?.[2];
    const port = match?.[3] === undefined ? default_port : Number(match[3]);
    if (host === undefined || port < 1 || port > 65_535) throw new Error('each host must be written as host:port');
    return { host, port };
  });
}

function readDb(text: string | undefined): number {
  if (text === undefined) return 0;
  const db = /^\d{1,4}$/.test(text) ? Number(text) : Number.NaN;
  if (!(db <= DB_MAX)) throw new Error(`the database must be a number from 0 to ${DB_MAX}`);
  return db;
}

function allowParams(params: URLSearchParams, known: readonly string[]): void {
  for (const name of params.keys()) {
    if (!known.includes(name)) throw new Error(`takes no parameter "${name}"`);
  }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new Error('holds a % that is not followed by two hexadecimal digits');
  }
}
