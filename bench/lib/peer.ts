// The processes of bench/peers: other libraries, which are packages of their own.
import { existsSync } from 'node:fs';
import { Helper } from './process.ts';

const PEERS = new URL('../peers/', import.meta.url);

export function startPeer(name: string, ...args: readonly string[]): Promise<Helper> {
  if (!existsSync(new URL('node_modules', PEERS))) throw new Error('The peers are not installed: run "make setup/peers".');
  return Helper.start(new URL(`${name}.process.ts`, PEERS), args);
}

/** The setup with which `trial` gives most; only one is not tried. */
export async function best<Setup>(setups: readonly [Setup, ...Setup[]], trial: (setup: Setup) => Promise<number>): Promise<Setup> {
  let [found] = setups;
  if (setups.length === 1) return found;
  let most = Number.NEGATIVE_INFINITY;
  for (const setup of setups) {
    const value = await trial(setup);
    process.stderr.write(`  tried ${JSON.stringify(setup)}: ${value.toPrecision(4)}\n`);
    if (value > most) [found, most] = [setup, value];
  }
  return found;
}
