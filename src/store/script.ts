// Calls the Lua scripts: by content hash, with the text sent only where a server does not have it yet.
//
// Two versions of a script can run side by side during a deploy, since each is known by its hash. A server forgets its
// scripts when it restarts and a replica never had them, so every way of calling answers NOSCRIPT by sending the text.
// A script that answered NOSCRIPT did nothing, so calling it again is always right. An earlier try of the same call may have: where its
// connection was cut, on a server that is no more.
import { createHash } from 'node:crypto';
import type { ChainableCommander, Cluster, Redis } from 'ioredis';
import { afterCut, unsure, wasCut } from './errors.ts';
import { evalshaBehindExists } from './told-first.ts';

/** One server, or a Redis Cluster; every script works on both. */
export type RedisClient = Redis | Cluster;

export type ArgType = 'string' | 'int' | 'number' | 'bytes' | 'json' | 'now' | 'now_us';
export type RestValue = string | number | Buffer;

/** A stretch of a Lua file from one of its lines on. Lines of it that are not sent are empty here, so that the others keep their numbers. */
export type Piece = readonly [file: string, line: number, text: string];

/** What the generator knows of a script. */
export interface ScriptSource {
  readonly name: string;
  readonly keys: readonly string[];
  readonly args: readonly (readonly [name: string, type: ArgType])[];
  /** Name of the argument that takes the rest of ARGV, or null. */
  readonly rest: string | null;
  /** What the text consists of. Scripts share most of theirs. */
  readonly pieces: readonly Piece[];
}

/** The reply as it comes from the `…Buffer` calls: every string is a Buffer. */
export type Buffers<T> = T extends string
  ? Buffer
  : T extends number | null
    ? T
    : T extends readonly unknown[]
      ? { [I in keyof T]: Buffers<T[I]> }
      : T;

export interface Script<K, A, R> extends ScriptSource {
  /** SHA-1 of the text, by which a server knows it. */
  readonly sha: string;
  call(redis: RedisClient, keys: K, args: A): Promise<R>;
  /** Like `call`, with strings of the reply as Buffers: for scripts that hand back what a caller stored. */
  callBuffer(redis: RedisClient, keys: K, args: A): Promise<Buffers<R>>;
  /**
   * Like `call`; where there is one server, whom the script tells by a channel most likely hears of it before the caller is answered. Redis writes to its clients last come,
   * first served, and with a command before it the caller is the first to come (docs/decisions/0064-told-before-answered.md).
   */
  callToldFirst(redis: RedisClient, keys: K, args: A): Promise<R>;
  /** Adds the call to a pipeline, which must then be run by `execPipeline`. */
  queue(pipeline: ChainableCommander, keys: K, args: A): void;
  queueBuffer(pipeline: ChainableCommander, keys: K, args: A): void;
}

/** Of one pipeline item: its error, or null and its reply; whether it ran after the others, since its text had to be sent. */
export type PipelineReply = readonly [error: Error | null, reply: unknown, late: boolean];

type Wire = (string | Buffer)[];

type Known = ScriptSource & { readonly sha: string };

interface Queued {
  script: Known;
  wire: Wire;
  buffer: boolean;
}

/**
 * In a pipeline: its script calls by their place in it, for the rerun of those that answered NOSCRIPT. Not in a WeakMap: what that holds outlives its key by a
 * collection of young space (docs/decisions/0061-what-outlives-its-use.md).
 */
const QUEUED = Symbol('queued');

interface Queueing {
  [QUEUED]?: Map<number, Queued>;
}

/** A client emits this, with the error, for each call of a script that failed and each pipeline that could not be sent: for whoever counts them. */
export const CALL_FAILED = 'callFailed';

/** Makes the typed caller of one script. */
export function script<K extends object, A extends object, R>(source: ScriptSource): Script<K, A, R> {
  // A thread calls some of all scripts: the hash of one is made when that is called first.
  let made: string | undefined;
  const sha = (): string => (made ??= createHash('sha1').update(textOf(source)).digest('hex'));
  const wireOf = (keys: K, args: A): Wire => toWire(source, keys as Record<string, unknown>, args as Record<string, unknown>);
  const count = source.keys.length;
  const run = async (redis: RedisClient, wire: Wire, buffer: boolean, first: () => Promise<unknown>): Promise<unknown> => {
    let cut: boolean;
    try {
      return await first();
    } catch (error) {
      if (!isNoScript(error)) throw failed(redis, error, self);
      cut = wasCut(error);
    }
    try {
      return await (buffer ? redis.callBuffer('eval', [textOf(source), count, ...wire]) : redis.eval(textOf(source), count, wire));
    } catch (error) {
      throw failed(redis, cut ? unsure(error) : error, self);
    }
  };
  const evalsha = (redis: RedisClient, wire: Wire, buffer: boolean): Promise<unknown> =>
    buffer ? redis.callBuffer('evalsha', [sha(), count, ...wire]) : redis.evalsha(sha(), count, wire);
  const call = async (redis: RedisClient, keys: K, args: A, buffer: boolean): Promise<unknown> => {
    const wire = wireOf(keys, args);
    return run(redis, wire, buffer, () => evalsha(redis, wire, buffer));
  };
  const add = (pipeline: ChainableCommander, keys: K, args: A, buffer: boolean): void => {
    const wire = wireOf(keys, args);
    const queueing = pipeline as Queueing;
    queueing[QUEUED] ??= new Map();
    queueing[QUEUED].set(pipeline.length, { script: self, wire, buffer });
    if (buffer) pipeline.callBuffer('evalsha', [sha(), count, ...wire]);
    else pipeline.evalsha(sha(), count, wire);
  };
  const self: Script<K, A, R> = {
    ...source,
    get sha() {
      return sha();
    },
    call: (redis, keys, args) => call(redis, keys, args, false) as Promise<R>,
    callBuffer: (redis, keys, args) => call(redis, keys, args, true) as Promise<Buffers<R>>,
    callToldFirst: async (redis, keys, args) => {
      if (!('stream' in redis)) return call(redis, keys, args, false) as Promise<R>;
      const wire = wireOf(keys, args);
      const [name = ''] = source.keys;
      const key = asText(source, name, (keys as Record<string, unknown>)[name]);
      const send = () => evalshaBehindExists(redis, key, [sha(), String(count), ...wire]) ?? evalsha(redis, wire, false);
      return run(redis, wire, false, send) as Promise<R>;
    },
    queue: (pipeline, keys, args) => add(pipeline, keys, args, false),
    queueBuffer: (pipeline, keys, args) => add(pipeline, keys, args, true),
  };
  return self;
}

/**
 * Runs a pipeline of script calls (and plain commands, if any): one reply for each item, in the order of adding.
 * Items that answered NOSCRIPT run again, in order, after the others. On Cluster all keys share a slot.
 * Rejects only where the pipeline as a whole could not be sent.
 */
export async function execPipeline(redis: RedisClient, pipeline: ChainableCommander): Promise<PipelineReply[]> {
  const items = (pipeline as Queueing)[QUEUED];
  const replies = await send(redis, pipeline, false);
  if (items === undefined) return replies;
  // First with each missing text sent once. A server that lost it again in between (a failover) gets the text with every call.
  for (const whole of [false, true]) {
    const missing = [...items].filter(([at]) => isNoScript(replies[at]?.[0]));
    if (missing.length === 0) break;
    const again = await resend(redis, missing, whole);
    missing.forEach(([at], i) => {
      const reply = again[i];
      if (reply === undefined) return;
      const [error, value, late] = reply;
      replies[at] = [error !== null && wasCut(replies[at]?.[0]) ? afterCut(error) : error, value, late];
    });
  }
  return replies.map(([error, reply, late], at) => {
    const item = items.get(at);
    return error !== null && item !== undefined ? [failed(redis, error, item.script), undefined, late] : [error, reply, late];
  });
}

/** Sends the texts ahead, so that the first calls need not. Not needed for anything else. */
export async function preload(redis: RedisClient, scripts: readonly Pick<ScriptSource, 'pieces'>[]): Promise<void> {
  const nodes = 'nodes' in redis ? redis.nodes('master') : [redis];
  await Promise.all(scripts.map(textOf).flatMap((text) => nodes.map((node) => node.script('LOAD', text))));
}

async function resend(redis: RedisClient, missing: readonly [number, Queued][], whole: boolean): Promise<PipelineReply[]> {
  const pipeline = redis.pipeline();
  const sent = new Set<string>();
  for (const [, { script: source, wire, buffer }] of missing) {
    const known = !whole && sent.has(source.sha);
    sent.add(source.sha);
    const count = source.keys.length;
    if (buffer) pipeline.callBuffer(known ? 'evalsha' : 'eval', [known ? source.sha : textOf(source), count, ...wire]);
    else if (known) pipeline.evalsha(source.sha, count, wire);
    else pipeline.eval(textOf(source), count, wire);
  }
  return send(redis, pipeline, true);
}

async function send(redis: RedisClient, pipeline: ChainableCommander, late: boolean): Promise<PipelineReply[]> {
  const replies = await pipeline.exec().catch((error: unknown) => {
    redis.emit(CALL_FAILED, error);
    throw error;
  });
  return (replies ?? []).map(([error, reply]) => [error, reply, late] as const);
}

/** KEYS, then the open-ended list, then the named arguments: the script takes these off the end of ARGV. */
function toWire(source: ScriptSource, keys: Record<string, unknown>, args: Record<string, unknown>): Wire {
  const wire: Wire = [];
  for (const name of source.keys) wire.push(asText(source, name, keys[name]));
  if (source.rest !== null) {
    const rest = args[source.rest] as readonly RestValue[];
    for (const value of rest) wire.push(typeof value === 'number' ? String(value) : value);
  }
  for (const [name, type] of source.args) {
    const value = args[name];
    if (type === 'now' || type === 'now_us') wire.push(value === undefined ? '' : String(value));
    else if (type === 'json') wire.push(JSON.stringify(value));
    else if (Buffer.isBuffer(value)) wire.push(value);
    else wire.push(asText(source, name, value));
  }
  return wire;
}

/** A missing value would otherwise reach Redis as the empty string. */
function asText(source: ScriptSource, name: string, value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number' && !Number.isNaN(value)) return String(value);
  throw new TypeError(`${source.name}: ${name} is ${String(value)}`);
}

function isNoScript(error: unknown): error is Error {
  return error instanceof Error && error.message.startsWith('NOSCRIPT');
}

function failed<E>(redis: RedisClient, error: E, source: Known): E {
  redis.emit(CALL_FAILED, error);
  return located(error, source);
}

/** Turns `user_script:12` in an error into the file and line a person can open. */
function located<E>(error: E, source: Known): E {
  if (!(error instanceof Error)) return error;
  const at = (text: string): string =>
    text
      .replaceAll(source.sha, source.name)
      .replaceAll(/@?user_script:(\d+)/g, (whole, line: string) => lineOf(source, Number(line)) ?? whole);
  // The stack begins with the message, and is what gets logged.
  const stack = error.stack === undefined ? undefined : at(error.stack);
  error.message = at(error.message);
  if (stack !== undefined) error.stack = stack;
  return error;
}

/** The text of a script, as it is sent: put together each time, which is seldom. */
export function textOf({ pieces }: Pick<ScriptSource, 'pieces'>): string {
  return pieces
    .map(([, , piece]) => piece)
    .join('\n')
    .replaceAll(/\n{2,}/g, '\n');
}

/** Where line `at` (from 1) of a script's text comes from, as `lua/batch/create.lua:12`. */
export function lineOf({ pieces }: Pick<ScriptSource, 'pieces'>, at: number): string | null {
  let sent = 0;
  for (const [file, first, piece] of pieces)
    for (const [i, line] of piece.split('\n').entries()) if (line !== '' && ++sent === at) return `${file}:${first + i}`;
  return null;
}
