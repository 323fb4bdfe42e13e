// Threads that are asked to end while they still load.
import type { Worker } from 'node:worker_threads';
import type { Piscina } from 'piscina';

/** Beyond it, a thread that does not come to its first call is ended all the same. */
const LOADING_MS_MAX = 5_000;

/**
 * What ends a pool's threads, each once it has loaded its module. Piscina loads it by `require`, and Node 20 aborts the whole process where a thread
 * ends within that (`FATAL ERROR: v8::Module::IsGraphAsync`): a server that was stopped right after its start died of SIGABRT. To be called
 * right after the pool was made. What it returns may be called more than once: Piscina itself would start threads again.
 */
export function endsOnceLoaded(piscina: Piscina): () => Promise<void> {
  const loaded = new Set<number>();
  const loads = (thread: Worker): Promise<unknown> => loadedOrGone(thread).then(() => loaded.add(thread.threadId));
  // Piscina takes its first threads for ready before they are; of later ones it tells when they are.
  const first = new Set(piscina.threads.map(({ threadId }) => threadId));
  for (const thread of piscina.threads) void loads(thread);
  piscina.on('workerCreate', ({ id }: { id: number }) => {
    if (!first.has(id)) loaded.add(id);
  });
  const end = async (): Promise<void> => {
    const give_up = new AbortController();
    const timer = setTimeout(() => give_up.abort(), LOADING_MS_MAX);
    const late = new Promise<void>((resolve) => give_up.signal.addEventListener('abort', () => resolve()));
    // One that fails meanwhile has a successor.
    while (!give_up.signal.aborted) {
      const loading = piscina.threads.filter(({ threadId }) => !loaded.has(threadId));
      if (loading.length === 0) break;
      await Promise.race([Promise.all(loading.map(loads)), late]);
    }
    clearTimeout(timer);
    await piscina.destroy();
  };
  let ending: Promise<void> | null = null;
  return () => {
    ending ??= end();
    return ending;
  };
}

/** Its first message says that it has loaded; ours have ports of their own for what they say. */
function loadedOrGone(thread: Worker): Promise<void> {
  return new Promise((resolve) => {
    for (const event of ['message', 'error', 'exit']) thread.once(event, () => resolve());
  });
}
