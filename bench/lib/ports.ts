// Ports for servers that are told theirs before they start.
import { createServer } from 'node:net';

const HOST = '127.0.0.1';
// Below the range from which the system takes ports for outgoing connections: one of those may be taken before the server listens.
const PORT_MIN = 20_000;
const PORT_MAX = 32_000;

/** So many ports of the loopback that nobody listens on now; tried from a random place, so that processes side by side do not meet. */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  const first = Math.floor(Math.random() * (PORT_MAX - PORT_MIN));
  for (let i = 0; i < PORT_MAX - PORT_MIN && ports.length < count; i++) {
    const port = PORT_MIN + ((first + i) % (PORT_MAX - PORT_MIN));
    if (await isFree(port)) ports.push(port);
  }
  if (ports.length < count) throw new Error(`only ${ports.length} of ${count} ports are free`);
  return ports;
}

export async function freePort(): Promise<number> {
  const [port = 0] = await freePorts(1);
  return port;
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen(port, HOST, () => probe.close(() => resolve(true)));
  });
}
