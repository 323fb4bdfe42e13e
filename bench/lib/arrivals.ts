// When requests reached a server: asked of itself (arrivals.js), since who sends them knows only when they left.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pause } from './bench.ts';

const ANSWER_MS_MAX = 10_000;
const LOOK_AGAIN_MS = 5;

export class Arrivals {
  readonly #dir = mkdtempSync(join(tmpdir(), 'sluice-arrivals-'));
  readonly #file = join(this.#dir, 'arrivals');

  /** What the server's node and its environment need. */
  get node_args(): string[] {
    return ['--import', new URL('./arrivals.js', import.meta.url).href];
  }

  get env(): Record<string, string> {
    return { BENCH_ARRIVALS: this.#file };
  }

  /** The moments (of `machineMs`) of all requests since the last call. */
  async take(pid: number): Promise<number[]> {
    process.kill(pid, 'SIGUSR2');
    const give_up_ms = performance.now() + ANSWER_MS_MAX;
    while (!existsSync(this.#file)) {
      if (performance.now() > give_up_ms) throw new Error('the server does not say when requests came in');
      await pause(LOOK_AGAIN_MS);
    }
    const arrivals = JSON.parse(readFileSync(this.#file, 'utf8')) as number[];
    rmSync(this.#file);
    return arrivals;
  }

  close(): void {
    rmSync(this.#dir, { recursive: true, force: true });
  }
}
