// For the bundle (build.sh): what is a getter of the global object, asked for several times a request, and a constant where it is imported.
export { Buffer } from 'node:buffer';
export { performance } from 'node:perf_hooks';
export { default as process } from 'node:process';
