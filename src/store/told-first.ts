// A script call that goes out behind another command, in one write (docs/decisions/0064-told-before-answered.md). Whoever waits for it is a task that comes alone, and what ioredis
// does for a command like any other was a third of what the main thread does for one. So its bytes are made at once, and those before it are held back for it.
import { Command, type Redis } from 'ioredis';

/** Takes the bytes of a command for the one behind it. Both are sent again, one after the other, where the connection breaks before they are answered. */
class Held {
  readonly isPipeline = true;
  readonly destination: { redis: Redis };
  #bytes: string | Buffer = '';

  constructor(redis: Redis) {
    this.destination = { redis };
  }

  write(bytes: string | Buffer): void {
    this.#bytes = bytes;
  }

  take(): Buffer {
    const bytes = this.#bytes;
    this.#bytes = '';
    return typeof bytes === 'string' ? Buffer.from(bytes) : bytes;
  }
}

class Behind extends Command {
  readonly #held: Held;
  readonly #bytes: Buffer;

  constructor(held: Held, name: string, bytes: Buffer) {
    super(name, [], { replyEncoding: 'utf8' });
    this.#held = held;
    this.#bytes = bytes;
  }

  override toWritable(): Buffer {
    return Buffer.concat([this.#held.take(), this.#bytes]);
  }
}

/** The answer to `bytes`, a command of this name as Redis reads it, which goes out behind an EXISTS of `key`. */
export function sendBehindExists(redis: Redis, key: string, name: string, bytes: Buffer): Promise<unknown> {
  const held = new Held(redis);
  const exists = redis.sendCommand(new Command('exists', [key]), held) as Promise<unknown>;
  exists.catch(() => {});
  return redis.sendCommand(new Behind(held, name, bytes)) as Promise<unknown>;
}
