// Loaded into a server (node --import) of which is asked when requests came in: notes the moment at which each reaches the first line of the server's own code.
// They are written to a file at SIGUSR2, and forgotten.
import { renameSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { isMainThread } from 'node:worker_threads';

const file = process.env['BENCH_ARRIVALS'];
if (isMainThread && file !== undefined) note(file);

/** @param {string} file */
function note(file) {
  const uws = load();
  const makeApp = uws.App;
  let arrivals = [];
  uws.App = (...options) => {
    const app = makeApp(...options);
    const any = app.any;
    app.any = (path, serve) =>
      any.call(app, path, (res, req) => {
        arrivals.push(process.hrtime.bigint());
        serve(res, req);
      });
    return app;
  };
  process.on('SIGUSR2', () => {
    writeFileSync(`${file}.part`, JSON.stringify(arrivals.map((at) => Number(at) / 1e6)));
    renameSync(`${file}.part`, file);
    arrivals = [];
  });
}

/** That of the two builds which the server loads (src/http/uws.ts). */
function load() {
  // The native code reads it as it is loaded, so it is set as the server sets it.
  process.env['UWS_HTTP_MAX_HEADERS_SIZE'] ??= '16384';
  const require = createRequire(process.argv[1] ?? import.meta.url);
  return require(Number(process.versions.modules) <= 127 ? 'uWebSockets.js' : 'uWebSockets.js-next');
}
