// Hints over sharded pub/sub: "work arrived", "progress was made". A hint may be lost and nobody relies on one, but a
// subscriber must not go deaf for long, and must know when it was.
//
// A sharded channel lives on the master of its slot, so there is one connection to each master that owns a wanted
// channel, and one in all where there is no Cluster. ioredis's own sharded subscribers are not used: they do not say
// which channel was confirmed when, do not notice a frozen master, and drop a failed SSUBSCRIBE without a word.
//
// A channel is `on` a link and, once the server said so, `confirmed`. Confirmation is lost when the link closes, when
// the server takes the channel away (its slot moves: a `sunsubscribe` push), and when the 5 s check finds fewer
// channels on the server than here. Whatever was lost is asked for again, where the slot table now says.

import { Cluster, type Redis } from 'ioredis';
import { backoff_ms } from '../base/backoff.ts';
import { monotonicMs } from '../base/clock.ts';
import { limitedLog } from '../base/log.ts';
import type { ConnectionSpec } from './address.ts';
import { type ClientOptions, createClient, createNode } from './client.ts';
import type { RedisClient } from './script.ts';
import { slotOf } from './tags.ts';

export type HintHandler = (message: string, channel: string) => void;

export interface Hints {
  /** Resolves with true once the server confirmed it; with false where that takes over 2 s, while trying goes on. One handler a channel. */
  subscribe(channel: string, handler: HintHandler): Promise<boolean>;
  unsubscribe(channel: string): void;
  close(): void;
}

export interface HintOptions {
  /**
   * Hints of this channel may have been lost, so look for yourself: it is heard again after an interruption, or at all after its
   * subscriber had long to wait.
   */
  onGap?: (channel: string) => void;
  /** It is not heard now: called at each check, for whoever looks seldom by himself. */
  onDeaf?: (channel: string) => void;
  /** Time between checks of each connection. */
  check_interval_ms?: number;
}

interface Channel {
  handler: HintHandler;
  link: Link | null;
  confirmed: boolean;
  /** Whether it was ever confirmed, so that the next time ends a gap. */
  heard: boolean;
  /** When it was asked for; who looks for himself at the start does so for a moment only. */
  asked_ms: number;
  waiting: ((confirmed: boolean) => void)[];
}

interface Link {
  readonly redis: Redis;
  readonly names: Set<string>;
  /** SSUBSCRIBE calls without an answer yet. */
  pending: number;
}

const CONFIRM_WAIT_MS = 2_000;
/** A confirmation that takes longer ends a gap. */
const PROMPT_MS = 1_000;
const CHECK_INTERVAL_MS = 5_000;
/** Waits before the slot table is read again and what is missing is asked for again. */
const RETRY_WAIT = { min_ms: 50, max_ms: 1_000 };
/** The link's name where there is one master for everything. */
const ONLY = '';

/** `client` is asked for the slot table of a Cluster; the subscriptions have connections of their own. */
export function openHints(client: RedisClient, spec: ConnectionSpec, owner: ClientOptions, options: HintOptions = {}): Hints {
  const log = limitedLog(owner.log);
  const role = `${owner.role}-hints`;
  const cluster = client instanceof Cluster ? client : null;
  const channels = new Map<string, Channel>();
  const links = new Map<string, Link>();
  const interval_ms = options.check_interval_ms ?? CHECK_INTERVAL_MS;
  let closed = false;
  let refresh_timer: NodeJS.Timeout | null = null;
  /** Looks at the slot table since a channel was last confirmed. */
  let tries = 0;
  let check_timer = setTimeout(check, interval_ms).unref();

  cluster?.on('refresh', place);

  return { subscribe, unsubscribe, close };

  function subscribe(name: string, handler: HintHandler): Promise<boolean> {
    const known = channels.get(name);
    if (closed) return Promise.resolve(false);
    if (known?.confirmed === true) {
      known.handler = handler;
      return Promise.resolve(true);
    }
    const channel = known ?? { handler, link: null, confirmed: false, heard: false, asked_ms: monotonicMs(), waiting: [] };
    channel.handler = handler;
    channels.set(name, channel);
    const confirmed = new Promise<boolean>((resolve) => {
      const timer = setTimeout(() => resolve(false), CONFIRM_WAIT_MS).unref();
      channel.waiting.push((yes) => {
        clearTimeout(timer);
        resolve(yes);
      });
    });
    placeOne(name, channel);
    return confirmed;
  }

  function unsubscribe(name: string): void {
    const channel = channels.get(name);
    if (channel === undefined) return;
    channels.delete(name);
    settle(channel, false);
    leave(name, channel);
  }

  function close(): void {
    closed = true;
    clearTimeout(check_timer);
    if (refresh_timer !== null) clearTimeout(refresh_timer);
    cluster?.off('refresh', place);
    for (const channel of channels.values()) settle(channel, false);
    for (const { redis } of links.values()) redis.disconnect();
    channels.clear();
    links.clear();
  }

  /** Puts every channel on the link of the master that owns it now, and ends links that carry none. */
  function place(): void {
    if (closed) return;
    for (const [name, channel] of channels) placeOne(name, channel);
    for (const [node, link] of links) {
      if (cluster === null || link.names.size > 0) continue;
      links.delete(node);
      link.redis.disconnect();
    }
  }

  function placeOne(name: string, channel: Channel): void {
    const node = ownerOf(name);
    if (node === null) {
      refreshSoon();
      return;
    }
    let link = links.get(node);
    if (link === undefined) {
      link = openLink(node);
      links.set(node, link);
    }
    if (channel.link === link) return;
    leave(name, channel);
    channel.link = link;
    link.names.add(name);
    if (link.redis.status === 'ready') send(link, name);
  }

  /** `host:port` of the master that owns the channel, as the client knows it; null where it does not. */
  function ownerOf(name: string): string | null {
    return cluster === null ? ONLY : (cluster.slots[channelSlot(name)]?.[0] ?? null);
  }

  function leave(name: string, channel: Channel): void {
    const { link } = channel;
    channel.link = null;
    channel.confirmed = false;
    if (link === null) return;
    link.names.delete(name);
    // Where the slot has moved away the server refuses, and has dropped the channel by itself.
    if (link.redis.status === 'ready') link.redis.sunsubscribe(name).catch(() => {});
  }

  function openLink(node: string): Link {
    const redis =
      cluster === null
        ? openOnly(spec, { role, log: owner.log })
        : createNode(spec, node, role, { ...SUBSCRIBER, enableReadyCheck: false });
    const link: Link = { redis, names: new Set(), pending: 0 };
    // One byte a character: what a bell carries may be anything.
    redis.on('smessageBuffer', (name: Buffer, message: Buffer) => deliver(name.toString('latin1'), message.toString('latin1')));
    redis.on('ready', () => sendAll(link));
    redis.on('close', () => {
      lose(link);
      if (!closed) refreshSoon();
    });
    // The server took a channel away, or answered MOVED; ioredis does not say which one.
    redis.on('moved', () => {
      lose(link);
      refreshSoon();
    });
    if (cluster !== null) redis.on('error', (error: Error) => log.warn({ err: error, role, node }, 'redis connection for hints failed'));
    return link;
  }

  function deliver(name: string, message: string): void {
    try {
      channels.get(name)?.handler(message, name);
    } catch (error) {
      log.error({ err: error, channel: name }, 'a hint handler threw');
    }
  }

  function lose(link: Link): void {
    for (const name of link.names) {
      const channel = channels.get(name);
      if (channel !== undefined) channel.confirmed = false;
    }
  }

  function sendAll(link: Link): void {
    for (const name of link.names) send(link, name);
  }

  /** Asks for a channel; asking for one that is there already changes nothing. */
  function send(link: Link, name: string): void {
    link.pending++;
    link.redis
      .ssubscribe(name)
      .then(
        () => confirm(link, name),
        (error: Error) => {
          log.warn({ err: error, role }, 'subscribing for hints failed');
          refreshSoon();
        },
      )
      .finally(() => {
        link.pending--;
      });
  }

  function confirm(link: Link, name: string): void {
    const channel = channels.get(name);
    if (channel?.link !== link) return;
    tries = 0;
    const gap = !channel.confirmed && (channel.heard || monotonicMs() - channel.asked_ms > PROMPT_MS);
    channel.confirmed = true;
    channel.heard = true;
    settle(channel, true);
    if (gap) options.onGap?.(name);
  }

  /** Reads the slot table again, then asks once more for all that is not confirmed. */
  function refreshSoon(): void {
    if (closed || refresh_timer !== null) return;
    tries++;
    const look = (): void => {
      refresh_timer = null;
      if (cluster === null) retry();
      else cluster.refreshSlotsCache(() => retry());
    };
    refresh_timer = setTimeout(look, backoff_ms(tries, RETRY_WAIT, Math.random)).unref();
  }

  function retry(): void {
    if (closed) return;
    place();
    for (const [name, { link, confirmed }] of channels) {
      if (!confirmed && link !== null && link.redis.status === 'ready') send(link, name);
    }
  }

  /** Every 5 s: each connection answers, and the server knows as many channels on it as are wanted. */
  async function check(): Promise<void> {
    await Promise.all([...links.values()].map(checkLink));
    if (closed) return;
    const deaf = [...channels].filter(([, { confirmed }]) => !confirmed);
    if (deaf.length > 0) refreshSoon();
    for (const [name] of deaf) options.onDeaf?.(name);
    check_timer = setTimeout(check, interval_ms).unref();
  }

  async function checkLink(link: Link): Promise<void> {
    if (link.redis.status !== 'ready') return;
    const steady = link.pending === 0 ? link.names.size : null;
    try {
      const known = await subscriptions(link.redis);
      if (known === null || steady === null || known >= steady || link.pending > 0) return;
      log.warn({ known, wanted: steady }, 'redis lost subscriptions; subscribing again');
      lose(link);
      sendAll(link);
    } catch (error) {
      if (closed) return;
      log.warn({ err: error, role }, 'the connection for hints does not answer; opening a new one');
      link.redis.disconnect(true);
    }
  }
}

/** Sharded channels that the server counts on this connection; null where it does not tell (Redis before 7.0.3, or a user without rights). */
async function subscriptions(redis: Redis): Promise<number | null> {
  try {
    const match = /(?:^| )ssub=(\d+)/.exec(String(await redis.client('INFO')));
    return match === null ? null : Number(match[1]);
  } catch (error) {
    if (!(error instanceof Error) || !/NOPERM|subscriber mode/.test(error.message)) throw error;
    await redis.ping();
    return null;
  }
}

function settle(channel: Channel, confirmed: boolean): void {
  for (const resolve of channel.waiting.splice(0)) resolve(confirmed);
}

/** One Redis, or the master that the Sentinels name. Only there a ready check is of use: it finds a demoted master. */
function openOnly(spec: ConnectionSpec, options: ClientOptions): Redis {
  const client = createClient(spec, options, { ...SUBSCRIBER, enableReadyCheck: spec.kind === 'sentinel' });
  if (client instanceof Cluster) throw new Error('a Cluster has a link for each master');
  return client;
}

/** Subscriptions are made again by `ready`, with their confirmation seen; nothing is queued or sent twice behind our back. */
const SUBSCRIBER = { autoResubscribe: false, autoResendUnfulfilledCommands: false, enableOfflineQueue: false, maxRetriesPerRequest: 0 };

/** As Redis Cluster does it: the text between the first `{` and the next `}`, where there is some. */
function channelSlot(name: string): number {
  const open = name.indexOf('{');
  const end = open < 0 ? -1 : name.indexOf('}', open + 1);
  return slotOf(end > open + 1 ? name.slice(open + 1, end) : name);
}
