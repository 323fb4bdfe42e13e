// What a process holds in memory.
import { readFileSync } from 'node:fs';
import type { Engine } from './engine.ts';
import { until } from './redis.ts';

const COLLECTED_MS_MAX = 20_000;

/**
 * Arguments of Node with which a server, when it gets SIGUSR2, collects its garbage in all of its threads and logs what is left. What the system
 * gives a process (`rssMb`) goes up and down by 200 MB with how much garbage V8 lets lie.
 */
export const TELLS_WHAT_IT_KEEPS = ['--expose-gc', '--import', `data:text/javascript,${encodeURIComponent(tells())}`];

function tells(): string {
  return `
    import { BroadcastChannel, isMainThread, threadId } from 'node:worker_threads';
    const channel = new BroadcastChannel('kept');
    channel.unref();
    const kept = () => {
      gc();
      const { heapUsed, external } = process.memoryUsage();
      return heapUsed + external;
    };
    const threads = new Map();
    const tell = (thread, bytes) => {
      threads.set(thread, bytes);
      process.stderr.write('kept ' + [...threads.values()].reduce((sum, each) => sum + each, 0) + '\\n');
    };
    if (isMainThread) {
      channel.onmessage = ({ data }) => tell(data.thread, data.bytes);
      process.on('SIGUSR2', () => {
        channel.postMessage('collect');
        tell(threadId, kept());
        process.stderr.write('collected\\n');
      });
    } else {
      channel.onmessage = ({ data }) => data === 'collect' && channel.postMessage({ thread: threadId, bytes: kept() });
    }`;
}

/** What such a server has told so far, in MB, the latest last. */
export function keptMb(engine: Engine): number[] {
  return engine.logs().flatMap((line) => (line.startsWith('kept ') ? [Number(line.slice(5)) / 1e6] : []));
}

/** Resolves when the main thread of such a server has collected its garbage. */
export async function collected(engine: Engine): Promise<void> {
  const times = (): number => engine.logs().filter((line) => line === 'collected').length;
  const before = times();
  engine.signal('SIGUSR2');
  await until(() => times() > before, COLLECTED_MS_MAX, 'the garbage to be collected');
}

export function rssMb(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1_024;
}
