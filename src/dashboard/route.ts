// The address behind the `#`: `#/batches/batch_1?status=failed` is view `batches`, id `batch_1`, and its filters.
import { useEffect, useState } from 'preact/hooks';

export interface Route {
  view: string;
  id: string | null;
  filters: URLSearchParams;
}

function read(): Route {
  const [path = '', query = ''] = location.hash.slice(2).split('?');
  const [view, id] = path.split('/');
  return { view: view || 'overview', id: id ? decoded(id) : null, filters: new URLSearchParams(query) };
}

/** An address that somebody has cut off stands for nothing that there is. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function useRoute(): Route {
  const [route, setRoute] = useState(read);
  useEffect(() => {
    const onChange = (): void => setRoute(read());
    addEventListener('hashchange', onChange);
    return () => removeEventListener('hashchange', onChange);
  }, []);
  return route;
}

export function goTo(hash: string): void {
  location.hash = hash;
}
