// Where a call goes, from its URL as it was accepted: the same as `new URL` says, which takes longer than all else that is read of a task.
import { ORIGINS_REMEMBERED_MAX } from '../base/limits.ts';

export interface Where {
  /** `URL.origin`. */
  origin: string;
  /** Path and query, beginning with `/`. */
  path: string;
}

/** Scheme and authority as written. Few of these serve many URLs. */
const AUTHORITY = /^https?:\/\/[^/?#\\\s]+/i;
/** What the URL parser leaves as it is: no character that it escapes, no fragment. */
const PLAIN = /^\/[\w\-~!$&()*+,;=:@%/.]*(?:\?[\w\-~!$&()*+,;=:@%/.?]+)?$/;
/** May be a segment that it takes out, as `..` and `%2e`. */
const DOTTED = /\/(?:\.|%2e)/i;

const origins = new Map<string, string>();

/** Throws where it is no URL. */
export function whereOf(url: string): Where {
  const authority = AUTHORITY.exec(url)?.[0] ?? '';
  const path = url.slice(authority.length);
  if (authority === '' || !PLAIN.test(path) || DOTTED.test(path)) {
    const { origin, pathname, search } = new URL(url);
    return { origin, path: pathname + search };
  }
  let origin = origins.get(authority);
  if (origin === undefined) {
    origin = new URL(url).origin;
    if (origins.size >= ORIGINS_REMEMBERED_MAX) origins.clear();
    origins.set(authority, origin);
  }
  return { origin, path };
}
