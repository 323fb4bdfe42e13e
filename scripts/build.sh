#!/bin/sh
# Builds what runs into the directory $1: the client with its types, the server and the command line, the dashboard.
#
# The server is bundled, its packages too: each of its threads would look for, read and compile 150 files otherwise, which was a quarter of the CPU of
# a start (docs/decisions/0066). Threads share what they have in common; what they have not, a thread does not load. Packages stay outside
# that are native, are loaded by name, or start threads of their own from their own files; and what only tools of ours have, which `debug` would take if it is there.
# What is bundled has no __dirname: a transport of pino, or ioredis's showFriendlyErrorStack, would need to stay outside as well.
set -eu
cd "$(dirname "$0")/.."
out=$1
bin=node_modules/.bin

$bin/tsc -p tsconfig.build.json --outDir "$out"
# CommonJS packages ask for Node's own modules by `require`, which an ES module does not have.
$bin/esbuild src/main.ts src/cli.ts src/*.thread.ts --outdir="$out" --bundle --splitting --format=esm --platform=node --target=node20 \
  --sourcemap --sources-content=false --log-level=warning \
  --inject:scripts/node-globals.js \
  --external:uWebSockets.js --external:uWebSockets.js-next --external:piscina --external:prom-client --external:supports-color --external:'@opentelemetry/*' \
  --banner:js="import { createRequire as requireOf } from 'node:module'; const require = requireOf(import.meta.url);"
$bin/vite build src/dashboard --config src/dashboard/vite.config.ts --outDir "$(cd "$out" && pwd)/dashboard" --logLevel warn
