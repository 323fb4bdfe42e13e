// A batch's stream as a view uses it: the newest numbers, and whether they still come.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Batch } from '../client/index.ts';
import { useSession } from './context.ts';

type Numbers = Pick<Batch, 'status' | 'stats' | 'completion_rate'>;

export interface Progress extends Numbers {
  /** When this was so. */
  updated_at: string;
}

export interface Followed {
  progress: Progress | null;
  /** Whether a stream is open: where none is, a view asks from time to time. */
  connected: boolean;
  /** How often one was opened after the first time: what else was asked for meanwhile may be missing. */
  reconnects: number;
}

/** Follows while `live`; `onEnd` when the batch has ended. Of `progress` and what was asked for, `newest` has the say. */
export function useFollow(id: string, live: boolean, onEnd?: () => void): Followed {
  const { client } = useSession();
  const [progress, setProgress] = useState<Progress | null>(null);
  const [connected, setConnected] = useState(false);
  const [connections, setConnections] = useState(0);
  const ended = useRef(onEnd);
  ended.current = onEnd;
  useEffect(() => {
    if (!live) return;
    const stop = new AbortController();
    const follow = async (): Promise<void> => {
      const onConnection = (open: boolean): void => {
        setConnected(open);
        if (open) setConnections((before) => before + 1);
      };
      for await (const frame of client.watch(id, { signal: stop.signal, onConnection })) {
        if (frame.type === 'task') continue;
        // Both times are the partition's.
        setProgress(frame.type === 'snapshot' ? numbersOf(frame.batch, frame.batch.updated_at) : numbersOf(frame, frame.timestamp));
      }
      if (!stop.signal.aborted) ended.current?.();
    };
    // A stream that is refused for good leaves the view to its asking.
    void follow()
      .catch(() => {})
      .finally(() => setConnected(false));
    return () => stop.abort();
  }, [client, id, live]);
  return { progress, connected, reconnects: Math.max(0, connections - 1) };
}

function numbersOf({ status, stats, completion_rate }: Numbers, updated_at: string): Progress {
  return { status, stats, completion_rate, updated_at };
}

/** The batch with the stream's numbers where those are not older. */
export function newest<T extends Progress>(batch: T, progress: Progress | null): T {
  return progress !== null && progress.updated_at >= batch.updated_at ? { ...batch, ...progress } : batch;
}

export function isLive(status: string): boolean {
  return status === 'pending' || status === 'processing';
}
