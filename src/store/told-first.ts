// A script call that goes out behind another command, in one write (docs/decisions/0064-told-before-answered.md). Whoever waits for it is a task that comes alone, and what ioredis
// does for two commands was a third of what the main thread does for one. So its bytes are made at once, and those before it are held back for it.
import type { Redis } from 'ioredis';
import { commandOf } from './resp.ts';

/**
 * Takes the bytes of a command for the one behind it, as ioredis's own pipelines do for theirs: it asks them for their connection. Where that breaks, both are sent again, or
 * only the one behind, when the first has been answered: then there is nothing here for it.
 */
class HeldBack {
  readonly isPipeline = true;
  readonly destination: { redis: Redis };
  #bytes = '';

  constructor(redis: Redis) {
    this.destination = { redis };
  }

  write(bytes: string | Buffer): void {
    this.#bytes = String(bytes);
  }

  take(): string {
    const bytes = this.#bytes;
    this.#bytes = '';
    return bytes;
  }
}

/**
 * The answer to an EVALSHA of these arguments, which goes out behind an EXISTS of `key`; null where this client cannot, and nothing was sent. Ours can (client.ts): an instance
 * of `Redis` itself does not know its class, whose prototype ioredis mixes with that of an EventEmitter.
 */
export function evalshaBehindExists(redis: Redis, key: string, args: (string | Buffer)[]): Promise<unknown> | null {
  // By the client's own name for it: this file is also in threads that have no client, and are to load none.
  const { Command } = redis.constructor as Partial<typeof Redis>;
  if (Command === undefined) return null;
  const ahead = new HeldBack(redis);
  // Arguments given to its constructor would be flattened: 1.4 % of what the main thread does where tasks come alone.
  const exists = new Command('exists');
  exists.args = [key];
  exists.promise.catch(() => {});
  redis.sendCommand(exists, ahead);
  const evalsha = new Command('evalsha', [], { replyEncoding: 'utf8' });
  evalsha.args = args;
  evalsha.toWritable = () => commandOf(['evalsha', ...(evalsha.args as (string | Buffer)[])], ahead.take());
  const answer = redis.sendCommand(evalsha) as Promise<unknown>;
  // Who does not let the second pass leaves the first alone, which waits for its answer.
  const left = ahead.take();
  if (left !== '') redis.stream.write(left);
  // Given up together: what is given up is not sent again.
  answer.catch((error) => exists.reject(error));
  return answer;
}
