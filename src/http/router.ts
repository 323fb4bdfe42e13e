// Finds what a path names: one tree of path segments, built once. Parameters are decoded once; a path whose encoding is
// broken names nothing.

export interface Match<T> {
  /** Everything under this path, by method. */
  methods: ReadonlyMap<string, T>;
  params: Record<string, string>;
}

interface Node<T> {
  next: Map<string, Node<T>>;
  /** Takes any segment that `next` does not have. */
  param: { name: string; node: Node<T> } | null;
  methods: Map<string, T>;
}

/** Longer paths than any of ours could be are not even split. */
const PATH_LENGTH_MAX = 1024;

export class Router<T> {
  readonly #root: Node<T> = empty();

  add(method: string, path: string, value: T): void {
    let node = this.#root;
    for (const segment of path.slice(1).split('/')) {
      const name = /^\{(\w+)\}$/.exec(segment)?.[1];
      if (name === undefined) node = getOrAdd(node.next, segment);
      else {
        node.param ??= { name, node: empty() };
        if (node.param.name !== name) throw new Error(`${path}: {${name}} stands where another route has {${node.param.name}}.`);
        node = node.param.node;
      }
    }
    if (node.methods.has(method)) throw new Error(`${method} ${path} is there twice.`);
    node.methods.set(method, value);
  }

  /** `path` as it came, percent-encoded and without its query; null where there is nothing. */
  find(path: string): Match<T> | null {
    if (path.length > PATH_LENGTH_MAX || path[0] !== '/') return null;
    const params: Record<string, string> = {};
    let node = this.#root;
    for (let at = 1; at <= path.length; ) {
      const slash = path.indexOf('/', at);
      const end = slash < 0 ? path.length : slash;
      const segment = decode(path.slice(at, end));
      if (segment === null) return null;
      const next = node.next.get(segment);
      if (next !== undefined) node = next;
      else if (node.param !== null && segment !== '') {
        params[node.param.name] = segment;
        node = node.param.node;
      } else return null;
      at = end + 1;
    }
    return node.methods.size === 0 ? null : { methods: node.methods, params };
  }
}

/** What OPTIONS and a 405 say: the methods of a path, with those that every path has. */
export function allowed(methods: ReadonlyMap<string, unknown>): string {
  const names = [...methods.keys()];
  if (methods.has('GET')) names.splice(names.indexOf('GET') + 1, 0, 'HEAD');
  return [...names, 'OPTIONS'].join(', ');
}

function decode(segment: string): string | null {
  if (!segment.includes('%')) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    return null;
  }
}

function empty<T>(): Node<T> {
  return { next: new Map(), param: null, methods: new Map() };
}

function getOrAdd<T>(next: Map<string, Node<T>>, segment: string): Node<T> {
  const found = next.get(segment);
  if (found !== undefined) return found;
  const node = empty<T>();
  next.set(segment, node);
  return node;
}
