// A line at the bottom of the terminal that says how far something is. Where there is no terminal it says nothing.

const EVERY_MS = 100;
const WIDTH = 24;

export class ProgressLine {
  readonly #out: NodeJS.WriteStream;
  readonly #on: boolean;
  #last_ms = 0;
  #shown = false;

  constructor(on: boolean, out: NodeJS.WriteStream = process.stderr) {
    this.#out = out;
    this.#on = on && out.isTTY === true;
  }

  /** `share` from 0 to 1; drawn at most ten times a second, and always when it is 1. */
  draw(share: number, text: () => string): void {
    const now_ms = performance.now();
    if (!this.#on || (share < 1 && now_ms - this.#last_ms < EVERY_MS)) return;
    this.#last_ms = now_ms;
    const columns = this.#out.columns || 80;
    this.#out.write(`\r\x1b[K${`${bar(share)} ${text()}`.slice(0, columns - 1)}`);
    this.#shown = true;
  }

  /** Makes room for lines of text. */
  clear(): void {
    if (this.#shown) this.#out.write('\r\x1b[K');
    this.#shown = false;
  }
}

function bar(share: number): string {
  const full = Math.round(Math.min(1, Math.max(0, share)) * WIDTH);
  return `${'█'.repeat(full)}${'░'.repeat(WIDTH - full)} ${String(Math.floor(share * 100)).padStart(3)} %`;
}
