// Loaded into every thread of a server that is profiled (node --import): profiles when it is told to, from load that is real.
// The command is the text of a file beside the results, read at SIGUSR2: `cpu`, `heap`, or `stop`. Each thread answers each
// command with a file of its own, so who asks knows when all have done it.
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { Session } from 'node:inspector';
import { join } from 'node:path';
import { BroadcastChannel, isMainThread, threadId, workerData } from 'node:worker_threads';

const CPU_INTERVAL_US = 500;
const HEAP_INTERVAL_BYTES = 32_768;

const dir = process.env['BENCH_PROBE_DIR'];
if (dir !== undefined) probe(dir);

/** @param {string} dir */
function probe(dir) {
  const name = isMainThread ? 'main' : (workerData?.pool ?? 'other');
  const session = new Session();
  session.connect();
  const ways = {
    cpu: () => {
      session.post('Profiler.enable');
      session.post('Profiler.setSamplingInterval', { interval: CPU_INTERVAL_US });
      session.post('Profiler.start');
      return (done) => session.post('Profiler.stop', (error, reply) => done(error, reply?.profile));
    },
    heap: () => {
      // With what was collected since: what was allocated, not what is left of it.
      const flags = { includeObjectsCollectedByMajorGC: true, includeObjectsCollectedByMinorGC: true };
      session.post('HeapProfiler.startSampling', { samplingInterval: HEAP_INTERVAL_BYTES, ...flags });
      return (done) => session.post('HeapProfiler.stopSampling', (error, reply) => done(error, reply?.profile));
    },
  };
  let stop = null;
  const answer = (number, value) => {
    const file = join(dir, `${number}.${threadId}.json`);
    writeFileSync(`${file}.part`, JSON.stringify(value));
    renameSync(`${file}.part`, file);
  };
  const obey = ({ number, command }) => {
    if (command !== 'stop') {
      stop = ways[command]();
      return answer(number, {});
    }
    stop?.((error, profile) => answer(number, error === null ? { name, profile } : { error: String(error) }));
    stop = null;
  };
  const channel = new BroadcastChannel('bench-probe');
  channel.onmessage = ({ data }) => obey(data);
  channel.unref();
  if (isMainThread) {
    process.on('SIGUSR2', () => {
      const message = JSON.parse(readFileSync(join(dir, 'command'), 'utf8'));
      channel.postMessage(message);
      obey(message);
    });
  }
  writeFileSync(join(dir, `thread.${threadId}`), '');
}
