// The callback thread of a process that traces. Apart, since OpenTelemetry is loaded here: a tenth of a second and some MB of each
// thread, which nobody else should pay.
import { type CallbackThreadData, runCallbacks } from './callbacks.thread.ts';
import type { JobInput } from './threads/pool.ts';
import { openTracing } from './tracing/spans.ts';

export default function run(input: JobInput<CallbackThreadData>): Promise<void> {
  return runCallbacks(input, openTracing);
}
