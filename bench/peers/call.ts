// How every peer makes its HTTP calls: undici at its fastest, `dispatch` over kept connections; read to the end.
import { type Dispatcher, Pool } from 'undici';

const HEADERS = ['content-type', 'application/json'];

export class Caller {
  readonly #origin: string;
  readonly #pool: Pool;

  constructor(origin: string, connections: number) {
    this.#origin = origin;
    this.#pool = new Pool(origin, { connections, pipelining: 1 });
  }

  /** Resolves when the answer, a good one, is read; `url` is below the origin. */
  call(url: string, body: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const path = url.slice(this.#origin.length);
      this.#pool.dispatch({ path, method: 'POST', headers: HEADERS, body }, new Handler(resolve, reject));
    });
  }
}

class Handler implements Dispatcher.DispatchHandler {
  readonly #resolve: () => void;
  readonly #reject: (error: Error) => void;
  #status = 0;

  constructor(resolve: () => void, reject: (error: Error) => void) {
    this.#resolve = resolve;
    this.#reject = reject;
  }
  onConnect(): void {}
  onHeaders(status: number): boolean {
    this.#status = status;
    return true;
  }
  onData(): boolean {
    return true;
  }
  onComplete(): void {
    if (this.#status < 300) this.#resolve();
    else this.#reject(new Error(`a call was answered ${this.#status}`));
  }
  onError(error: Error): void {
    this.#reject(error);
  }
}
