// What a process holds in memory, as the system sees it.
import { readFileSync } from 'node:fs';

/** Arguments of Node with which garbage never stays for long, in any thread: what its memory shows is then what is kept. */
export const COLLECTING = ['--expose-gc', '--import', 'data:text/javascript,setInterval(gc,250).unref()'];

export function rssMb(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1_024;
}
