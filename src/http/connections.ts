// Keeps the process from running out of file descriptors: connections beyond the bound are closed as they come.
import { readFileSync } from 'node:fs';
import type { HttpResponse, TemplatedApp } from './uws.ts';

/** The rest is for Redis, callbacks, files and the listening sockets. */
const SHARE = 0.8;
const LIMIT_UNKNOWN = 10_000;

export class Connections {
  readonly #max: number;
  #open = 0;
  #waiting: (() => void)[] = [];

  constructor(max: number | null) {
    this.#max = max ?? Math.floor(SHARE * fileLimit());
  }

  get open(): number {
    return this.#open;
  }

  watch(app: TemplatedApp): void {
    const onChange = (res: HttpResponse, change: unknown): void => {
      if (Number(change) < 0) return this.left();
      this.#open += 1;
      if (this.#open > this.#max) res.close();
    };
    app.filter(onChange);
  }

  /** One is closed; the native code says so of all but WebSockets. */
  left(): void {
    this.#open -= 1;
    if (this.#open === 0) for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** Resolves when all are closed, at the latest after `wait_ms`. */
  async closed(wait_ms: number): Promise<void> {
    if (this.#open === 0) return;
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#waiting.push(resolve);
      timer = setTimeout(resolve, wait_ms);
    });
    clearTimeout(timer);
  }
}

/** Soft limit on open files of this process. */
function fileLimit(): number {
  try {
    const line = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'));
    return line === null ? LIMIT_UNKNOWN : Number(line[1]);
  } catch {
    return LIMIT_UNKNOWN;
  }
}
