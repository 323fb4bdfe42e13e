// The dashboard's files, read once at the start: they are few and small. Everything is of this server alone, nothing inline,
// so the policy that the browser keeps can be the strictest there is.
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import type { Reply } from './answer.ts';

/** By path: `/`, `/assets/index-….js`. */
export type Pages = ReadonlyMap<string, Page>;

export interface Page {
  body: Buffer;
  type: string;
  headers: Readonly<Record<string, string>>;
}

const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
};

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/** Of every page. */
export const PAGE_HEADERS = {
  'Content-Security-Policy': POLICY,
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
};
/** The name of an asset changes with its content. */
const FOR_EVER = 'public, max-age=31536000, immutable';
const ASK_EACH_TIME = 'no-cache';

/** The built page in `dir`; nothing where it was not built. */
export function loadPages(dir: string): Pages {
  const pages = new Map<string, Page>();
  if (!existsSync(join(dir, 'index.html'))) return pages;
  pages.set('/', page(join(dir, 'index.html'), ASK_EACH_TIME));
  for (const name of readdirSync(join(dir, 'assets'))) {
    pages.set(`/assets/${name}`, page(join(dir, 'assets', name), FOR_EVER));
  }
  return pages;
}

function page(path: string, cache: string): Page {
  const body = readFileSync(path);
  const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`;
  const type = TYPES[extname(path)] ?? 'application/octet-stream';
  return { body, type, headers: { ...PAGE_HEADERS, 'Cache-Control': cache, ETag: etag } };
}

/** What is sent for a page; 304 where the browser has it. */
export function pageReply({ body, type, headers }: Page, if_none_match: string): Reply {
  return notModified({ status: 200, body, type, headers: { ...headers } }, if_none_match);
}

export function notModified(page: Reply, if_none_match: string): Reply {
  if (if_none_match === '' || if_none_match !== page.headers?.['ETag']) return page;
  return { status: 304, body: null, headers: page.headers };
}
