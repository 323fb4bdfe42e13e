// Structured logs: one JSON object a line on standard output, never a token, a payload or what a target answered.
import pino from 'pino';
import { type Clock, monotonicMs } from './clock.ts';
import type { LogLevel } from './log-level.ts';

export type Log = pino.Logger;

/** Fields that never leave the process, at the top level of a line or one level down. */
const SECRET_FIELDS = ['token', 'tokens', 'access_token', 'authorization', 'password', 'secret', 'secrets', 'payload', 'body', 'ticket'];
const ERROR_TEXT_MAX = 1_000;
const GATES_MAX = 100;

export interface LogOptions {
  level?: LogLevel;
  /** Fields of every line, such as the thread. */
  fields?: Record<string, unknown>;
  /** Where lines go; standard output unless a test listens. */
  destination?: { write(line: string): void };
}

export function createLog(options: LogOptions = {}): Log {
  const settings: pino.LoggerOptions = {
    level: options.level ?? 'info',
    base: { ...options.fields },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    redact: { paths: SECRET_FIELDS.flatMap((field) => [field, `*.${field}`]), censor: '***' },
    serializers: { err: errorFields, error: errorFields },
  };
  return options.destination === undefined ? pino(settings) : pino(settings, options.destination);
}

/** What of an error may be logged. The Redis client hangs a command's arguments on its errors: payloads and token hashes. */
function errorFields(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) return { message: clip(String(error)) };
  const code = 'code' in error && typeof error.code === 'string' ? error.code : undefined;
  return {
    type: error.name,
    message: clip(error.message),
    ...(code === undefined ? {} : { code }),
    ...(error.stack === undefined ? {} : { stack: clip(error.stack) }),
    ...(error.cause === undefined ? {} : { cause: errorFields(error.cause) }),
  };
}

function clip(text: string): string {
  return text.length > ERROR_TEXT_MAX ? `${text.slice(0, ERROR_TEXT_MAX)}…` : text;
}

export interface LimitedLog {
  warn(fields: Record<string, unknown>, message: string): void;
  error(fields: Record<string, unknown>, message: string): void;
}

/** For loops: one line a message and interval, carrying `suppressed`, the number of lines that were left out before it. */
export function limitedLog(log: Log, interval_ms = 3_000, clock: Clock = monotonicMs): LimitedLog {
  const gates = new Map<string, { open_at_ms: number; suppressed: number }>();
  const pass = (level: 'warn' | 'error', fields: Record<string, unknown>, message: string): void => {
    const now = clock();
    let gate = gates.get(message);
    if (gate === undefined) {
      // Messages are constants, so this bound is only met by a caller who puts data into them.
      if (gates.size >= GATES_MAX) gates.clear();
      gate = { open_at_ms: now, suppressed: 0 };
      gates.set(message, gate);
    }
    if (now < gate.open_at_ms) {
      gate.suppressed++;
      return;
    }
    log[level](gate.suppressed > 0 ? { ...fields, suppressed: gate.suppressed } : fields, message);
    gate.open_at_ms = now + interval_ms;
    gate.suppressed = 0;
  };
  return {
    warn: (fields, message) => pass('warn', fields, message),
    error: (fields, message) => pass('error', fields, message),
  };
}
