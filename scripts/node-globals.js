// For the bundle (build.sh): what is a getter of the global object, asked for several times a request, and a constant where it is imported.
export { Buffer } from 'node:buffer';
export { performance } from 'node:perf_hooks';
// Not from `node:process`: to import that opens stdin, stdout and stderr.
export const process = globalThis.process;
