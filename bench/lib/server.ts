// A server's process, as the benches start it.
import { type ChildProcess, spawn } from 'node:child_process';

const START_MS_MAX = 30_000;
const LOOK_AGAIN_MS = 10;
/** As bin/sluice starts it. */
const NODE_ARGS = ['--no-memory-reducer'];
const LOOK_UPS_MAX = '128';
/** The largest that the settings take: the cost of a limit is measured, its refusal never. */
const NO_LIMIT = '1000000';

/** `entry` is dist/main.js, or src/main.ts, which runs through tsx. */
export function spawnServer(entry: string, node_args: readonly string[], env: Record<string, string>): ChildProcess {
  return spawn(process.execPath, [...NODE_ARGS, ...(entry.endsWith('.ts') ? ['--import', 'tsx'] : []), ...node_args, entry], {
    env: {
      ...foreign(process.env),
      UV_THREADPOOL_SIZE: LOOK_UPS_MAX,
      // The guard is on, as it is by default: the receivers are what an operator lets it pass.
      SLUICE_EGRESS_ALLOW_CIDRS: '127.0.0.0/8',
      SLUICE_LOG_LEVEL: 'warn',
      SLUICE_LIMIT_BATCH_CREATE: NO_LIMIT,
      SLUICE_LIMIT_BATCH_ADD: NO_LIMIT,
      SLUICE_LIMIT_BATCH_STATUS: NO_LIMIT,
      ...env,
    },
    // What it says is not the answer of a bench.
    stdio: ['ignore', process.stderr, process.stderr],
  });
}

/** This environment without what configures another server. */
function foreign(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('SLUICE_')));
}

export async function untilReady(url: string, child: ChildProcess): Promise<void> {
  const give_up_ms = performance.now() + START_MS_MAX;
  while (performance.now() < give_up_ms) {
    if (child.exitCode !== null || child.signalCode !== null)
      throw new Error(`the engine does not start (${child.signalCode ?? child.exitCode})`);
    const ready = await fetch(`${url}/readyz`).then(
      (response) => response.ok,
      () => false,
    );
    if (ready) return;
    await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS));
  }
  throw new Error('the engine is not ready after 30 s');
}
