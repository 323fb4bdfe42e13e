// A TCP port in front of a Redis: a network that one process alone goes through, and that can be made to fail.
import { type AddressInfo, connect, createServer, type NetConnectOpts, type Socket } from 'node:net';
import { after } from 'node:test';
import { resetSocket } from './reset.ts';

export interface FaultProxy {
  readonly port: number;
  /** Ends every link; new ones are taken. */
  cut(): void;
  /** The same by RST. */
  reset(): void;
  /** Ends every link and takes no new one, as a host that is down. */
  refuse(): void;
  /** Nothing comes through. Links stay open and new ones are taken; what was sent arrives when it is healed, however late. */
  hang(): void;
  /** Requests arrive, answers are lost: the server does what nobody hears of. */
  swallow(): void;
  /** Each chunk takes this much longer, both ways. */
  delay(ms: number): void;
  /** As before all that. Links that lost bytes end: what would follow could not be understood. */
  heal(): void;
}

interface Link {
  /** To the process. */
  near: Socket;
  /** To Redis. */
  far: Socket;
  lossy: boolean;
}

/** In front of a unix socket or a port; closed by itself when the test, or the file, that started it ends. */
export async function startProxy(target: NetConnectOpts): Promise<FaultProxy> {
  const links = new Set<Link>();
  let fault: 'none' | 'refuse' | 'hang' | 'swallow' = 'none';
  let delay_ms = 0;

  const end = ({ near, far }: Link): void => {
    near.destroy();
    far.destroy();
  };
  const forward = (link: Link, from: Socket, to: Socket): void => {
    const late: Buffer[] = [];
    from.on('data', (bytes: Buffer) => {
      if (fault === 'swallow' && to === link.near) {
        link.lossy = true;
      } else if (delay_ms === 0 && late.length === 0) {
        to.write(bytes);
      } else {
        // Whichever timer fires, the oldest goes first.
        late.push(bytes);
        setTimeout(() => to.writable && to.write(late.shift() ?? ''), delay_ms);
      }
    });
    from.on('error', () => {});
    from.on('close', () => {
      links.delete(link);
      // What it sent before goes first.
      to.end();
      if (fault !== 'hang') to.destroySoon();
    });
  };
  const server = createServer((near) => {
    if (fault === 'refuse') return void near.destroy();
    const link = { near, far: connect(target), lossy: false };
    links.add(link);
    forward(link, near, link.far);
    forward(link, link.far, near);
    if (fault === 'hang') near.pause();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const endAll = (): void => {
    for (const link of links) end(link);
  };
  after(() => {
    endAll();
    server.close();
  });
  return {
    port: (server.address() as AddressInfo).port,
    cut: endAll,
    reset() {
      for (const { near, far } of links) {
        resetSocket(near);
        far.destroy();
      }
    },
    refuse() {
      fault = 'refuse';
      endAll();
    },
    hang() {
      fault = 'hang';
      for (const { near, far } of links) for (const socket of [near, far]) socket.pause();
    },
    swallow() {
      fault = 'swallow';
    },
    delay(ms) {
      delay_ms = ms;
    },
    heal() {
      fault = 'none';
      delay_ms = 0;
      for (const link of links) {
        if (link.lossy) end(link);
        else for (const socket of [link.near, link.far]) socket.resume();
      }
    },
  };
}
