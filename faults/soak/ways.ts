// What a soak breaks: one of two engines, which reaches Redis through a network of its own; that network; and Redis.
import type { KillableRedis } from '../../test/engine/killable-redis.ts';
import type { Engine } from '../../test/helpers/engine.ts';
import type { FaultProxy } from '../../test/helpers/proxy.ts';

export interface Broken {
  redis: KillableRedis;
  /** Between Redis and the engine that is broken. */
  proxy: FaultProxy;
  /** It stays, whatever happens: its memory is looked at. */
  stays: Engine;
  /** The one that may die, as it is now. */
  fragile(): Engine;
  /** Another in its place; `first` ends it. */
  replace(first: (engine: Engine) => Promise<unknown>): Promise<void>;
  lasts(ms: number): Promise<void>;
}

export interface Way {
  name: string;
  run(broken: Broken): Promise<void>;
}

/** Longer than a holder may be silent. */
const LONG_MS = 10_000;
const SHORT_MS = 4_000;
const REDIS_AWAY_MS = 1_000;

async function cutFor(ms: number, { proxy, lasts }: Broken, begin: (proxy: FaultProxy) => void): Promise<void> {
  begin(proxy);
  await lasts(ms);
  proxy.heal();
}

export const WAYS: readonly Way[] = [
  { name: 'kill -9 of an engine', run: ({ replace }) => replace((engine) => engine.kill9()) },
  { name: 'SIGTERM of an engine', run: ({ replace }) => replace((engine) => engine.stop()) },
  {
    name: 'an engine stands still for 10 s',
    async run({ fragile, lasts }) {
      fragile().signal('SIGSTOP');
      await lasts(LONG_MS);
      fragile().signal('SIGCONT');
    },
  },
  {
    name: 'the other stands still for 4 s',
    async run({ stays, lasts }) {
      stays.signal('SIGSTOP');
      await lasts(SHORT_MS);
      stays.signal('SIGCONT');
    },
  },
  {
    name: 'kill -9 of Redis, back after 1 s',
    async run({ redis, lasts }) {
      await redis.kill9();
      await lasts(REDIS_AWAY_MS);
      await redis.start();
    },
  },
  {
    name: 'Redis stands still for 4 s',
    async run({ redis, lasts }) {
      redis.freeze();
      await lasts(SHORT_MS);
      redis.thaw();
    },
  },
  { name: 'links to Redis are cut', run: async ({ proxy }) => proxy.cut() },
  {
    name: 'links are reset, refused for 10 s',
    run: (broken) =>
      cutFor(LONG_MS, broken, (proxy) => {
        proxy.reset();
        proxy.refuse();
      }),
  },
  { name: 'no packet comes through for 10 s', run: (broken) => cutFor(LONG_MS, broken, (proxy) => proxy.hang()) },
  { name: 'replies of Redis are lost for 10 s', run: (broken) => cutFor(LONG_MS, broken, (proxy) => proxy.swallow()) },
  { name: 'the script cache is emptied', run: async ({ redis }) => void (await redis.redis.script('FLUSH')) },
];
