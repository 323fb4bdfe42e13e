// The parts of undici that undici.ts loads one by one have no types of their own.
declare module 'undici/lib/core/symbols.js' {
  const kConnect: unique symbol;
  const kQueue: unique symbol;
  const kPendingIdx: unique symbol;
  const kHTTPContext: unique symbol;
  const kSocket: unique symbol;
  const kParser: unique symbol;
  const symbols: {
    readonly kConnect: typeof kConnect;
    readonly kQueue: typeof kQueue;
    readonly kPendingIdx: typeof kPendingIdx;
    readonly kHTTPContext: typeof kHTTPContext;
    readonly kSocket: typeof kSocket;
    readonly kParser: typeof kParser;
  };
  export default symbols;
}
declare module 'undici/lib/core/connect.js' {
  const build: typeof import('undici').buildConnector;
  export default build;
}
declare module 'undici/lib/dispatcher/client.js' {
  import symbols from 'undici/lib/core/symbols.js';

  /** What undici's parser in WebAssembly calls as it goes through an answer. All but 0 ends it. */
  export interface Parser {
    headers: Buffer[];
    keepAlive: string;
    onMessageBegin(): number;
    /** 1: no body follows, whatever the head says. */
    onHeadersComplete(status: number, upgrade: boolean, keeps_alive: boolean): number;
    onBody(bytes: Buffer): number;
    onMessageComplete(): number;
  }

  /** Its `kConnect`, which has no other name, opens its connection without a request. */
  type Client = import('undici').Client & {
    [symbols.kConnect](opened: () => void): void;
    readonly [symbols.kQueue]: readonly unknown[];
    readonly [symbols.kPendingIdx]: number;
    [symbols.kHTTPContext]: object | null;
    readonly [symbols.kSocket]: (import('node:net').Socket & { readonly [symbols.kParser]: Parser | null }) | null;
  };
  const Client: new (...args: ConstructorParameters<typeof import('undici').Client>) => Client;
  export default Client;
}
