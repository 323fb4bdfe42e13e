// A process of its own that runs the embedded Redis of a data directory, as `sluice serve` does; for tests that kill it.
// Says one line of JSON when it is up, and ends on SIGTERM like the real one.
import { createLog } from '../../src/base/log.ts';
import { startEmbedded } from '../../src/store/embedded.ts';

const [, , data_dir = ''] = process.argv;
const alive = setInterval(() => {}, 60_000);

try {
  const embedded = await startEmbedded({ data_dir, log: createLog({ level: 'silent' }) });
  process.once('SIGTERM', () => void embedded.stop().then(() => clearInterval(alive)));
  process.stdout.write(`${JSON.stringify({ socket: embedded.socket })}\n`);
} catch (error) {
  process.stdout.write(`${JSON.stringify({ refused: String(error) })}\n`);
  clearInterval(alive);
}
