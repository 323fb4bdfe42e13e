// What a process holds in memory, as the system sees it.
import { readFileSync } from 'node:fs';

/** Arguments of Node with which a server collects its garbage, in all of its threads, when it gets SIGUSR2: what its memory shows is then what is kept. */
export const COLLECTS = ['--expose-gc', '--import', `data:text/javascript,${encodeURIComponent(collects())}`];

function collects(): string {
  return `
    import { BroadcastChannel, isMainThread } from 'node:worker_threads';
    const channel = new BroadcastChannel('collect');
    channel.onmessage = () => gc();
    channel.unref();
    if (isMainThread) process.on('SIGUSR2', () => channel.postMessage(null, gc()));`;
}

export function rssMb(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1_024;
}
