// A resolver that lies, stays silent, or knows nothing: names that alternate between an address that may be called and one that may not
// never lead to the latter, and slow names do not hold up those in use.
import { createSocket } from 'node:dgram';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { startRedis, until } from '../../test/helpers/redis.ts';
import { type Fault, NotHere } from '../lib/fault.ts';
import type { Scene } from '../lib/scene.ts';

/** Of the resolver; a port of its own is not to be had: resolv.conf knows none. */
const RESOLVER = '127.0.0.53';
const ALLOWED = '127.0.0.1';
const FORBIDDEN = '127.0.0.9';
const NAMES = 100;
const SLOW_NAMES = 10;
const GOOD_TASKS = 300;
const TTL_S = 0;
const RATIO_MAX = 2;
const FAST_MS = 200;
const SLOW_MS_MAX = 180_000;
/** Those that are to get through in the end. */
const RETRIED = new Set(['good', 'both']);
const WORK = '/work-to-do';

export const dns: readonly Fault[] = [
  {
    row: 19,
    name: 'forbidden',
    what: 'names that alternate with a forbidden address, or are unknown',
    async run(scene) {
      const stage = await setUp(scene);
      await scene.driver.more(scene.some);
      scene.begins();
      const alternates = await stage.named('alternates', 3 * NAMES);
      const [both, forbidden, unknown] = [
        await stage.named('both', NAMES),
        await stage.named('forbidden', NAMES),
        await stage.named('unknown', NAMES),
      ];
      const turns = await stage.ended(alternates.id);
      const mixed = await stage.ended(both.id);
      const never = [await stage.ended(forbidden.id), await stage.ended(unknown.id)];
      await scene.driver.more(scene.some);
      scene.over();
      scene.figure('alternating_called', turns.completed);
      scene.figure('alternating_refused', turns.failed);
      scene.figure('forbidden_dialed', stage.dialed());
      scene.check(turns.completed > 0 && turns.failed > 0, `of those that alternate ${turns.completed} were called, ${turns.failed} not`);
      scene.check(mixed.failed === 0, `${mixed.failed} failed though one of their addresses may be called`);
      scene.check(
        never.every(({ completed }) => completed === 0),
        'what has no address was called',
      );
      scene.check(stage.dialed() === 0, `${stage.dialed()} connections to a forbidden address`);
      return scene.judge({ duplicates_max: 0, failed_max: turns.failed + 2 * NAMES });
    },
  },
  {
    row: 19,
    name: 'slow',
    what: `look-ups of ${SLOW_NAMES} names get no answer; others go on`,
    async run(scene) {
      const stage = await setUp(scene);
      const alone = await stage.named('good', GOOD_TASKS);
      await stage.ended(alone.id);
      // The callers' own tasks go to a name that is in use.
      scene.driver.aim(scene.receiver.url.replace(ALLOWED, 'good-in-use.test') + WORK);
      await scene.driver.more(scene.some);
      const before_ms = scene.waited_ms(0.99);
      scene.begins();
      const slow = await stage.named('slow', SLOW_NAMES);
      await until(() => stage.resolver.unanswered > 0, SLOW_MS_MAX, 'a look-up without an answer');
      const beside = await stage.named('good', GOOD_TASKS);
      const from_ms = Date.now();
      await scene.driver.more(2 * scene.some);
      const used_ms = scene.waited_ms(0.99, from_ms);
      await stage.ended(beside.id);
      scene.over();
      stage.resolver.answerAll();
      await stage.ended(slow.id);
      scene.figure('p99_ms_of_a_name_in_use_before', before_ms);
      scene.figure('p99_ms_of_a_name_in_use', used_ms);
      scene.figure('p99_ms_of_new_names_before', alone.waited_ms());
      scene.figure('p99_ms_of_new_names', beside.waited_ms());
      scene.check(used_ms <= Math.max(FAST_MS, RATIO_MAX * before_ms), `p99 ${used_ms} ms beside slow look-ups, ${before_ms} ms without`);
      return scene.judge({ duplicates_max: 0, failed_max: SLOW_NAMES });
    },
  },
];

interface Stage {
  resolver: OwnResolver;
  /** A batch of tasks, of which a hundred at most have the same name; nothing is remembered of those names. */
  named(kind: string, count: number): Promise<{ id: string; waited_ms: () => number }>;
  ended(id: string): Promise<{ completed: number; failed: number }>;
  /** Connections to an address that may not be called. */
  dialed(): number;
}

async function setUp(scene: Scene): Promise<Stage> {
  if (process.getuid?.() !== 0) throw new NotHere('a resolver needs root');
  const resolver = await startResolver();
  const env = { SLUICE_ALLOW_PRIVATE_TARGETS: 'false', SLUICE_EGRESS_ALLOW_CIDRS: `${ALLOWED}/32` };
  await scene.engine({ redis_url: `unix://${(await startRedis()).path}`, env, within: resolver.within });
  const port = Number(new URL(scene.receiver.url).port);
  let dialed = 0;
  const trap = createServer((socket) => {
    dialed += 1;
    socket.destroy();
  });
  await new Promise<void>((resolve) => trap.listen(port, FORBIDDEN, resolve));
  after(() => trap.close());
  let round = 0;
  return {
    resolver,
    dialed: () => dialed,
    async named(kind, count) {
      const mark = `${kind}-${round++}`;
      scene.receiver.at(`/${mark}`);
      const sent_ms = Date.now();
      const retry = RETRIED.has(kind) ? { max_retries: 10, backoff: 'fixed', delay: 1 } : { max_retries: 0 };
      const tasks = Array.from({ length: count }, (_, i) => ({ target: `http://${mark}-${i % NAMES}.test:${port}/${mark}`, retry }));
      const id = (await scene.driver.batch(tasks)) ?? '';
      const waits = (): number[] => scene.receiver.to(`/${mark}`).map(({ at_ms }) => at_ms - sent_ms);
      return { id, waited_ms: () => waits().toSorted((a, b) => a - b)[Math.floor(waits().length * 0.99)] ?? 0 };
    },
    ended: async (id) => (await scene.client().batchWhen(id, ({ stats }) => stats.pending === 0, SLOW_MS_MAX)).stats,
  };
}

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
      alternates: [(turn + Number(/(\d+)\.test$/.exec(name)?.[1])) % 2 === 0 ? ALLOWED : FORBIDDEN],
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
