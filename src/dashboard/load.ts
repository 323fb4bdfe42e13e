// What a view shows comes from here: asked for at once, again after what changed it, and from time to time where no stream
// tells of changes. Nothing is asked for while the page is not looked at, and at once when it is looked at again.
import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { useSession } from './context.ts';
import { isUnauthorized, messageOf } from './session.ts';

export interface Loaded<T> {
  /**
   * null: not here yet. Stays while newer is on its way, or cannot be had; while another question is answered, so that what
   * is under the reader's eyes and hands does not go away for a moment, it is still that of the one before.
   */
  data: T | null;
  error: string | null;
  again(): void;
}

/** A view that a stream moves asks again for what the stream does not carry, but not with every frame. */
const CHANGES_MS = 1_500;

/**
 * `name` tells one question from another: a new one is asked at once. `every_ms` null asks once. A new `version` asks again,
 * soon.
 */
export function useLoad<T>(name: string, ask: () => Promise<T>, every_ms: number | null = null, version = ''): Loaded<T> {
  const { signOut } = useSession();
  const [state, setState] = useState<{ name: string; data: T | null; error: string | null }>({ name, data: null, error: null });
  const latest = useRef({ ask, name });
  latest.current = { ask, name };
  const order = useRef({ asked: 0, told: 0 });
  const load = useCallback(async () => {
    const asked = latest.current;
    const turn = ++order.current.asked;
    const tell = (data: T | null, error: string | null): void => {
      // An answer that took long does not replace one to a later question.
      if (latest.current.name !== asked.name || turn < order.current.told) return;
      order.current.told = turn;
      setState((before) => ({ name: asked.name, data: data ?? (before.name === asked.name ? before.data : null), error }));
    };
    try {
      tell(await asked.ask(), null);
    } catch (error) {
      if (isUnauthorized(error)) signOut(messageOf(error));
      else tell(null, messageOf(error));
    }
  }, [signOut]);
  useEffect(() => {
    void load();
    const loadIfSeen = (): void => {
      if (!document.hidden) void load();
    };
    document.addEventListener('visibilitychange', loadIfSeen);
    const timer = every_ms === null ? undefined : setInterval(loadIfSeen, every_ms);
    return () => {
      document.removeEventListener('visibilitychange', loadIfSeen);
      clearInterval(timer);
    };
  }, [name, every_ms, load]);
  const known = useRef(version);
  const due = useRef<ReturnType<typeof setTimeout> | null>(null);
  useEffect(() => {
    if (known.current === version || due.current !== null) return;
    due.current = setTimeout(() => {
      due.current = null;
      void load();
    }, CHANGES_MS);
    known.current = version;
  }, [version, load]);
  useEffect(() => () => clearTimeout(due.current ?? undefined), []);
  return { data: state.data, error: state.name === name ? state.error : null, again: () => void load() };
}
