// The embedded Redis: a private redis-server on a unix socket in the data directory, started and watched by Sluice.
//
// One Sluice process owns it (datadir.ts). The owner adopts a server that a killed process left behind, or starts one;
// starts it again when it ends by itself; and ends it when it stops. Further processes on the same directory are guests:
// they use the server, and one of them becomes the owner when the owner is gone. The server runs in a session of its
// own, so that neither Ctrl-C nor a kill of Sluice takes it along; what it was sent is in its append-only file.
//
// In the directory: appendonlydir/ (the data), redis.log, redis.pid, redis.sock, owner.<n>; redis.socket names the
// socket where this directory's path is too long for one.
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, existsSync, openSync, realpathSync, renameSync, statSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { backoff_ms } from '../base/backoff.ts';
import { type Clock, monotonicMs } from '../base/clock.ts';
import type { Log } from '../base/log.ts';
import { isAlive, type Ownership, processStart, takeOwnership } from './datadir.ts';
import { StoreRefused } from './errors.ts';
import { findBinary, isServerOf, knownSocket, openDir, probe, readText, serverArgs, socketPath } from './redis-server.ts';

export interface Embedded {
  /** Path of the unix socket. */
  readonly socket: string;
  /** Ends the server if this process owns it, and waits for its end. */
  stop(): Promise<void>;
}

export interface EmbeddedOptions {
  data_dir: string;
  log: Log;
  /** The program; found on PATH. */
  binary?: string;
}

/** Debian has Valkey without the name of Redis, unless valkey-redis-compat is installed too. */
const BINARIES = ['redis-server', 'valkey-server'];
const LOG_BYTES_MAX = 10 * 1024 * 1024;
const LOG_TAIL_BYTES = 2_000;
const POLL_MS = 20;
/** Between two looks; and those of an owner who is told of the server's end. */
const WATCH_MS = 250;
const CALM_WATCH_MS = 2_000;
/** For a server that runs without answering: it may be stuck on its disk. */
const MUTE_WAIT_MS = 10_000;
/** For one without a socket: it may have been started this moment. */
const UNBOUND_WAIT_MS = 1_000;
const GUEST_WAIT_MS = 10_000;
const STOP_WAIT_MS = 60_000;
const PROGRESS_LOG_MS = 5_000;
const RESTART = { min_ms: 100, max_ms: 10_000 };
/** A server that ran this long before it ended counts as a first failure again. */
const STEADY_MS = 30_000;

/** Throws StoreRefused where the server cannot be run. Resolves when it answers. */
export async function startEmbedded(options: EmbeddedOptions): Promise<Embedded> {
  const binary = findBinary(options.binary === undefined ? BINARIES : [options.binary]);
  const keeper = new Keeper(openDir(options.data_dir), binary, options.log);
  const socket = await keeper.begin();
  return { socket, stop: () => keeper.end() };
}

/** The socket of the embedded Redis that runs on this directory, for those who only want to use it; null where none answers. */
export async function embeddedSocket(data_dir: string): Promise<string | null> {
  const socket = existsSync(data_dir) ? knownSocket(realpathSync(data_dir)) : null;
  return socket !== null && (await probe(socket)) !== 'silent' ? socket : null;
}

class Keeper {
  #socket = '';
  readonly #dir: string;
  readonly #binary: string;
  readonly #log: Log;
  readonly #clock: Clock = monotonicMs;
  #ownership: Ownership | null = null;
  #pid: number | null = null;
  #started: string | null = null;
  #up_since_ms = 0;
  #failures = 0;
  /** A connection on which nothing is said: it closes when the server has ended, or a moment later where a child of it was writing a file. */
  #line: Socket | null = null;
  /** The next look is far away, unless the line closes. */
  #calm = false;
  #timer: NodeJS.Timeout | null = null;
  #ending: Promise<void> | null = null;
  #turn: Promise<void> = Promise.resolve();

  constructor(dir: string, binary: string, log: Log) {
    this.#dir = dir;
    this.#binary = binary;
    this.#log = log;
  }

  /** Resolves with the socket when the server behind it answers. */
  async begin(): Promise<string> {
    this.#ownership = takeOwnership(this.#dir);
    try {
      if (this.#ownership === null) await this.#join();
      else await this.#provide();
    } catch (error) {
      this.#ownership?.release();
      throw error;
    }
    this.#watchSoon(WATCH_MS);
    return this.#socket;
  }

  end(): Promise<void> {
    this.#ending ??= this.#finish();
    return this.#ending;
  }

  async #finish(): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#turn;
    this.#line?.destroy();
    if (this.#ownership === null) return;
    if (this.#pid !== null && this.#lives()) {
      process.kill(this.#pid, 'SIGTERM'); // It writes out its append-only file, then ends.
      if (!(await this.#gone(STOP_WAIT_MS))) this.#log.error({ pid: this.#pid }, 'the embedded redis does not end; it is left running');
    }
    this.#ownership.release();
  }

  /** As a guest: waits for the owner's server. The owner may be starting it, or going away. */
  async #join(): Promise<void> {
    const give_up_ms = this.#clock() + GUEST_WAIT_MS;
    while (true) {
      this.#socket = knownSocket(this.#dir) ?? '';
      if (this.#socket !== '' && (await probe(this.#socket)) !== 'silent') break;
      this.#ownership = takeOwnership(this.#dir);
      if (this.#ownership !== null) return this.#provide();
      if (this.#clock() >= give_up_ms) throw new StoreRefused(`Another Sluice process holds ${this.#dir}, but its Redis does not answer.`);
      await pause(POLL_MS);
    }
    await this.#untilLoaded(() => true);
    this.#log.info({ dir: this.#dir }, 'another sluice process owns the embedded redis here; using it');
  }

  /** As the owner: adopts the server that runs here, or starts one; returns when it answers. */
  async #provide(): Promise<void> {
    this.#socket = socketPath(this.#dir);
    const pid = await this.#findRunning();
    if (pid === null) return this.#launch();
    this.#attach(pid);
    this.#log.info({ pid, dir: this.#dir }, 'adopted the embedded redis that an earlier process left running');
    await this.#untilLoaded(() => this.#lives());
  }

  /** Process id of a server of this directory. One that runs but no longer listens is ended first. */
  async #findRunning(): Promise<number | null> {
    const noted = this.#notedPid();
    const give_up_ms = this.#clock() + (existsSync(this.#socket) ? MUTE_WAIT_MS : UNBOUND_WAIT_MS);
    do {
      const answer = await probe(this.#socket);
      if (answer !== 'silent') {
        if (answer.dir !== null && answer.dir !== this.#dir) {
          throw new StoreRefused(
            `The socket ${this.#socket} belongs to a Redis that keeps its data in ${answer.dir}, not in ${this.#dir}.`,
          );
        }
        const pid = answer.pid ?? noted;
        if (pid !== null) return pid;
      } else if (noted === null) return null;
      await pause(POLL_MS);
    } while (this.#clock() < give_up_ms && (noted === null || isServerOf(noted, this.#dir)));
    if (noted === null || !isServerOf(noted, this.#dir)) return null;
    this.#log.warn({ pid: noted }, 'a redis-server runs on the data directory without answering; ending it');
    this.#attach(noted);
    process.kill(noted, 'SIGTERM');
    if (await this.#gone(MUTE_WAIT_MS)) return null;
    throw new StoreRefused(
      `A redis-server (process ${noted}) holds ${this.#dir}, does not answer and does not end. End it, then start again.`,
    );
  }

  #notedPid(): number | null {
    const pid = Number(readText(join(this.#dir, 'redis.pid')) ?? Number.NaN);
    return Number.isInteger(pid) && pid > 0 && isServerOf(pid, this.#dir) ? pid : null;
  }

  async #launch(): Promise<void> {
    const child = this.#spawnServer();
    let ended: string | null = null;
    child.once('error', (error) => {
      ended = error.message;
    });
    child.once('exit', (code, signal) => {
      ended ??= `it ended with ${signal ?? `code ${code}`}`;
    });
    child.unref();
    if (child.pid !== undefined) this.#attach(child.pid);
    await this.#untilLoaded(() => ended === null);
    if (ended !== null) throw new StoreRefused(`The embedded redis-server does not start: ${ended}.\n${this.#logTail()}`);
    this.#log.info({ pid: this.#pid, socket: this.#socket }, 'started the embedded redis');
  }

  /**
   * The shell writes the process id before it becomes redis-server, so a server is never without its note, even if this
   * process is killed right here; and its umask makes every file private.
   */
  #spawnServer(): ChildProcess {
    const log_file = join(this.#dir, 'redis.log');
    if (existsSync(log_file) && statSync(log_file).size > LOG_BYTES_MAX) renameSync(log_file, `${log_file}.1`);
    const out = openSync(log_file, 'a', 0o600);
    try {
      const script = 'umask 077; echo $$ > redis.pid && exec "$@"';
      const argv = ['-c', script, 'sh', this.#binary, ...serverArgs(this.#dir, this.#socket)];
      return spawn('/bin/sh', argv, { cwd: this.#dir, detached: true, stdio: ['ignore', out, out] });
    } finally {
      closeSync(out);
    }
  }

  #attach(pid: number): void {
    this.#pid = pid;
    this.#started = processStart(pid);
    this.#up_since_ms = this.#clock();
  }

  #lives(): boolean {
    return this.#pid !== null && processStart(this.#pid) !== 'ended' && isAlive(this.#pid, this.#started);
  }

  async #gone(wait_ms: number): Promise<boolean> {
    const give_up_ms = this.#clock() + wait_ms;
    while (this.#lives()) {
      if (this.#clock() >= give_up_ms) return false;
      await pause(POLL_MS);
    }
    return true;
  }

  /** Until the server answers and has read its data, however long that takes, or `going` says that it ended. */
  async #untilLoaded(going: () => boolean): Promise<void> {
    let log_at_ms = this.#clock() + PROGRESS_LOG_MS;
    while (going() && this.#ending === null) {
      const answer = await probe(this.#socket);
      if (answer !== 'silent' && !answer.loading) return;
      if (this.#clock() >= log_at_ms) {
        const loading = answer === 'silent' ? {} : { percent: answer.percent };
        this.#log.info(loading, 'waiting for the embedded redis to load its data');
        log_at_ms = this.#clock() + PROGRESS_LOG_MS;
      }
      await pause(POLL_MS);
    }
  }

  #watchSoon(wait_ms: number): void {
    if (this.#ending !== null) return;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#turn = this.#look();
    }, wait_ms).unref();
  }

  async #look(): Promise<void> {
    let next_ms: number;
    try {
      next_ms = await this.#watch();
    } catch (error) {
      this.#failures++;
      this.#log.error({ err: error }, 'the embedded redis cannot be brought back; trying again');
      next_ms = backoff_ms(this.#failures, RESTART, Math.random);
    }
    this.#watchSoon(next_ms);
  }

  /** Who waits calmly is told by it that the server has ended. */
  #listen(): void {
    if (this.#line !== null || this.#ending !== null) return;
    const line = connect(this.#socket).unref().resume();
    this.#line = line;
    line.once('error', () => {});
    line.once('close', () => {
      this.#line = null;
      if (!this.#calm) return;
      this.#calm = false;
      this.#watchSoon(0);
    });
  }

  /** One look; resolves with the time until the next. */
  async #watch(): Promise<number> {
    this.#calm = false;
    this.#ownership ??= takeOwnership(this.#dir);
    if (this.#ownership === null) return WATCH_MS;
    if (this.#lives()) {
      this.#listen();
      this.#calm = this.#line?.readyState === 'open';
      return this.#calm ? CALM_WATCH_MS : WATCH_MS;
    }
    this.#line?.destroy();
    if (this.#pid !== null) {
      this.#failures = this.#clock() - this.#up_since_ms >= STEADY_MS ? 1 : this.#failures + 1;
      const wait_ms = backoff_ms(this.#failures, RESTART, Math.random);
      this.#log.error(
        { pid: this.#pid, wait_ms: Math.round(wait_ms), tail: this.#logTail() },
        'the embedded redis ended by itself; starting it again',
      );
      this.#pid = null;
      return wait_ms;
    }
    await this.#provide();
    return WATCH_MS;
  }

  #logTail(): string {
    const text = readText(join(this.#dir, 'redis.log')) ?? '';
    return text.slice(-LOG_TAIL_BYTES).trim();
  }
}
