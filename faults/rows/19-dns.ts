// A resolver that lies, stays silent, or knows nothing: names that alternate between an address that may be called and one that may not
// never lead to the latter, and slow names do not hold up the others.
import { createSocket } from 'node:dgram';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { startRedis, until } from '../../test/helpers/redis.ts';
import { type Fault, NotHere } from '../lib/fault.ts';

/** Of the resolver; a port of its own is not to be had: resolv.conf knows none. */
const RESOLVER = '127.0.0.53';
const ALLOWED = '127.0.0.1';
const FORBIDDEN = '127.0.0.9';
const NAMES = 100;
const LOOKUPS_SLOW = 100;
const GOOD_TASKS = 300;
const TTL_S = 0;
const RATIO_MAX = 2;
const FAST_MS = 200;
const SLOW_MS_MAX = 60_000;

export const dns: Fault = {
  row: 19,
  name: '',
  what: 'names that alternate with a forbidden address, are slow, or unknown',
  async run(scene) {
    if (process.getuid?.() !== 0) throw new NotHere('a resolver needs root');
    const resolver = await startResolver();
    const { path } = await startRedis();
    const env = { SLUICE_ALLOW_PRIVATE_TARGETS: 'false', SLUICE_EGRESS_ALLOW_CIDRS: `${ALLOWED}/32` };
    const engine = await scene.engine({ redis_url: `unix://${path}`, env, within: resolver.within });
    const port = Number(new URL(scene.receiver.url).port);
    let dialed = 0;
    const trap = createServer((socket) => {
      dialed += 1;
      socket.destroy();
    });
    await new Promise<void>((resolve) => trap.listen(port, FORBIDDEN, resolve));
    after(() => trap.close());
    await scene.driver.more(scene.some);

    // Each under a name of its own, so that nothing is remembered of it.
    const named = async (kind: string, count: number, delay_s = 0): Promise<{ id: string; waited_ms: () => number }> => {
      const path = `/${kind}-${resolver.asked}`;
      scene.receiver.at(path);
      const sent_ms = Date.now();
      const tasks = Array.from({ length: count }, (_, i) => ({
        target: `http://${kind}-${i % NAMES}-${resolver.asked}.test:${port}${path}`,
        retry: { max_retries: delay_s === 0 ? 0 : 1, delay: Math.max(1, delay_s) },
      }));
      const id = (await scene.driver.batch(tasks)) ?? '';
      return {
        id,
        waited_ms: () => {
          const waits = scene.receiver.to(path).map(({ at_ms }) => at_ms - sent_ms);
          return waits.toSorted((a, b) => a - b)[Math.floor(waits.length * 0.99)] ?? 0;
        },
      };
    };
    const ended = (id: string): Promise<{ stats: { completed: number; failed: number } }> =>
      scene.client().batchWhen(id, ({ stats }) => stats.pending === 0, SLOW_MS_MAX);

    const alone = await named('good', GOOD_TASKS);
    await ended(alone.id);
    scene.begins();
    const alternates = await named('alternates', 3 * NAMES);
    const both = await named('both', NAMES);
    const forbidden = await named('forbidden', NAMES);
    const unknown = await named('unknown', NAMES);
    const { stats: turns } = await ended(alternates.id);
    const { stats: mixed } = await ended(both.id);
    const { stats: never } = await ended(forbidden.id);
    const { stats: none } = await ended(unknown.id);
    scene.figure('alternating_called', turns.completed);
    scene.figure('alternating_refused', turns.failed);
    scene.check(turns.completed > 0 && turns.failed > 0, `of those that alternate ${turns.completed} were called, ${turns.failed} not`);
    scene.check(mixed.failed === 0, `${mixed.failed} failed though one of their addresses may be called`);
    scene.check(never.completed === 0 && none.completed === 0, 'what has no address was called');

    const slow = await named('slow', LOOKUPS_SLOW);
    const asked = resolver.unanswered;
    await until(() => resolver.unanswered > asked, SLOW_MS_MAX, 'a look-up without an answer');
    const beside = await named('good', GOOD_TASKS);
    const literal_ms = Date.now();
    await scene.driver.more(scene.some);
    await ended(beside.id);
    scene.figure('p99_ms_named_alone', alone.waited_ms());
    scene.figure('p99_ms_named_beside_slow', beside.waited_ms());
    scene.figure('p99_ms_by_address_beside_slow', scene.waited_ms(0.99, literal_ms));
    scene.check(
      beside.waited_ms() <= Math.max(FAST_MS, RATIO_MAX * alone.waited_ms()),
      `p99 ${beside.waited_ms()} ms beside slow look-ups, ${alone.waited_ms()} ms without`,
    );
    resolver.answerAll();
    await ended(slow.id);
    scene.over();
    scene.figure('forbidden_dialed', dialed);
    scene.check(dialed === 0, `${dialed} connections to a forbidden address`);
    scene.check(
      engine.logs().every((line) => !line.includes('"level":"fatal"')),
      'a fatal line in the log',
    );
    return scene.judge({ duplicates_max: 0, failed_max: 3 * NAMES + 2 * NAMES + LOOKUPS_SLOW });
  },
};

interface OwnResolver {
  /** Runs a program so that names are asked of this resolver, by the system's own look-up. */
  within: readonly string[];
  readonly asked: number;
  readonly unanswered: number;
  /** From here on the slow are answered too: unknown. */
  answerAll(): void;
}

/** Answers by the start of a name; `slow` never. */
async function startResolver(): Promise<OwnResolver> {
  const socket = createSocket('udp4');
  const turns = new Map<string, number>();
  let [asked, unanswered, silent] = [0, 0, true];
  socket.on('message', (query, from) => {
    asked += 1;
    const { name, type, question } = questionOf(query);
    if (name.startsWith('slow') && silent) {
      unanswered += 1;
      return;
    }
    const turn = turns.get(name) ?? 0;
    if (type === TYPE_A) turns.set(name, turn + 1);
    const addresses: Record<string, string[]> = {
      good: [ALLOWED],
      alternates: [(turn + Number(/\d+/.exec(name)?.[0])) % 2 === 0 ? ALLOWED : FORBIDDEN],
      both: [FORBIDDEN, ALLOWED],
      forbidden: [FORBIDDEN],
    };
    const found = addresses[name.split('-')[0] ?? ''];
    socket.send(replyTo(query, question, type === TYPE_A ? (found ?? []) : [], found === undefined), from.port, from.address);
  });
  await new Promise<void>((resolve, reject) => {
    socket.once('error', reject);
    socket.bind(53, RESOLVER, resolve);
  }).catch((error: Error) => {
    throw new NotHere(`no resolver at ${RESOLVER}: ${error.message}`);
  });
  const dir = mkdtempSync(join(tmpdir(), 'sluice-dns-'));
  const file = join(dir, 'resolv.conf');
  writeFileSync(file, `nameserver ${RESOLVER}\n`);
  after(() => {
    socket.close();
    rmSync(dir, { recursive: true, force: true });
  });
  return {
    within: ['unshare', '-m', 'sh', '-c', 'mount --bind "$0" /etc/resolv.conf && exec "$@"', file],
    get asked() {
      return asked;
    },
    get unanswered() {
      return unanswered;
    },
    answerAll() {
      silent = false;
    },
  };
}

const TYPE_A = 1;
const HEADER_BYTES = 12;
const NO_SUCH_NAME = 3;

function questionOf(query: Buffer): { name: string; type: number; question: Buffer } {
  const labels: string[] = [];
  let at = HEADER_BYTES;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.').toLowerCase(), type: query.readUInt16BE(at + 1), question: query.subarray(HEADER_BYTES, at + 5) };
}

function replyTo(query: Buffer, question: Buffer, addresses: readonly string[], unknown: boolean): Buffer {
  const head = Buffer.alloc(HEADER_BYTES);
  query.copy(head, 0, 0, 2);
  head.writeUInt16BE(0x8180 | (unknown ? NO_SUCH_NAME : 0), 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(addresses.length, 6);
  const answers = addresses.map((address) => {
    const record = Buffer.alloc(16);
    // The name of the question.
    record.writeUInt16BE(0xc0_0c, 0);
    record.writeUInt16BE(TYPE_A, 2);
    record.writeUInt16BE(1, 4);
    record.writeUInt32BE(TTL_S, 6);
    record.writeUInt16BE(4, 10);
    record.set(address.split('.').map(Number), 12);
    return record;
  });
  return Buffer.concat([head, question, ...answers]);
}
