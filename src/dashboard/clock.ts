// What stands on the page as `5 min ago` moves on by itself: one timer for all of it, idle while the page is not looked at.
import { useEffect, useState } from 'preact/hooks';
import { ago } from './format.ts';

const TICK_MS = 1_000;
const readers = new Set<(now_ms: number) => void>();
let timer: ReturnType<typeof setInterval> | undefined;

function tick(): void {
  if (document.hidden) return;
  const now_ms = Date.now();
  for (const tell of readers) tell(now_ms);
}

/** How long ago an instant is, or how soon. */
export function useAgo(at: string): string {
  const [, setShown] = useState('');
  useEffect(() => {
    // A text that is the same draws nothing.
    const tell = (now_ms: number): void => setShown(ago(at, now_ms));
    readers.add(tell);
    timer ??= setInterval(tick, TICK_MS);
    return () => {
      readers.delete(tell);
      if (readers.size > 0) return;
      clearInterval(timer);
      timer = undefined;
    };
  }, [at]);
  return ago(at);
}
