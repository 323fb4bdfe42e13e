// A TCP port in front of a unix socket: a network that can cut links, lose answers and add requests.
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface Relay {
  readonly port: number;
  /** Which chunks of answers reach the client; all, unless set. */
  passes: (answer: Buffer) => boolean;
  /** Ends all links at once. */
  cut(): void;
  /** Sends bytes to every client, as if they were an answer. */
  give(bytes: Buffer): void;
  /** Sends bytes to the server over every link, as if its client had. */
  inject(bytes: string): void;
  close(): void;
}

export async function startRelay(path: string): Promise<Relay> {
  const links = new Set<{ near: Socket; far: Socket }>();
  const relay: Relay = {
    port: 0,
    passes: () => true,
    cut() {
      for (const { near, far } of links) {
        near.destroy();
        far.destroy();
      }
    },
    give(bytes) {
      for (const { near } of links) near.write(bytes);
    },
    inject(bytes) {
      for (const { far } of links) far.write(bytes);
    },
    close() {
      this.cut();
      server.close();
    },
  };
  const server = createServer((near) => {
    const link = { near, far: connect(path) };
    links.add(link);
    for (const socket of [near, link.far]) {
      socket.on('error', () => {});
      socket.on('close', () => {
        links.delete(link);
        near.destroy();
        link.far.destroy();
      });
    }
    near.pipe(link.far);
    link.far.on('data', (bytes: Buffer) => {
      if (relay.passes(bytes)) near.write(bytes);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return Object.assign(relay, { port: (server.address() as AddressInfo).port });
}
