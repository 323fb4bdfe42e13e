// What the client adds to a page that uses all of it: its source bundled and minified as by Vite for a browser.
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { build } from 'vite';
import type { Bench } from './lib/bench.ts';

const ENTRY = fileURLToPath(new URL('../src/client/index.ts', import.meta.url));

/** The bundle as text; it imports nothing, or what it imports is in it as `import`. */
export async function bundleClient(): Promise<string> {
  const made = await build({
    configFile: false,
    logLevel: 'error',
    build: { write: false, minify: true, target: 'es2022', lib: { entry: ENTRY, formats: ['es'] } },
  });
  const outputs = (Array.isArray(made) ? made : [made]).flatMap((one) => ('output' in one ? one.output : []));
  return outputs.map((one) => ('code' in one ? one.code : '')).join('');
}

export const clientSize: Bench = {
  name: 'client_size',
  once: true,
  what: 'the client in a browser bundle, all of it',
  async run() {
    const bundle = Buffer.from(await bundleClient());
    return {
      minified_bytes: bundle.length,
      gzip_bytes: gzipSync(bundle, { level: 9 }).length,
      brotli_bytes: brotliCompressSync(bundle).length,
    };
  },
};
