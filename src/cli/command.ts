// What a command is: its name, its words and options, and what it does. Parsing, help, shell completion and docs/cli.md are
// made from these rows.

export interface Option {
  type: 'string' | 'boolean';
  short?: string;
  /** What stands for the value in the help: `NAME`; the choices where there are any. */
  value?: string;
  choices?: readonly string[];
  required?: true;
  /** May be given more than once. */
  multiple?: true;
  meaning: string;
}

/** What the command talks to; that decides what it takes beside its own options, and which errors it can end with. */
export type Needs = 'redis' | 'server' | 'nothing';

export interface Command {
  /** Words that name it: `token create`. */
  name: string;
  /** What follows the name, in order: `ID`. */
  words: readonly string[];
  summary: string;
  /** More, for the documentation. */
  about?: string;
  options: Readonly<Record<string, Option>>;
  needs: Needs;
  run(given: Given): Promise<ExitCode>;
}

export const EXIT = {
  done: 0,
  failed: 1,
  misused: 2,
  unreachable: 3,
  bad_end: 4,
  interrupted: 130,
} as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** In the order of the docs. */
export const EXIT_MEANINGS: readonly [ExitCode, string][] = [
  [EXIT.done, 'Done.'],
  [EXIT.failed, 'It could not be done: the service refused it, or what it is about does not exist.'],
  [EXIT.misused, 'The command line, a setting or the file was not understood. Nothing was done.'],
  [EXIT.unreachable, 'The server or Redis did not answer, or cannot be used. Later it may.'],
  [
    EXIT.bad_end,
    'It was done, and what it looked at is not well: a batch that ended otherwise than `completed`, a `doctor` that found a fault.',
  ],
  [EXIT.interrupted, 'Interrupted. `batch create -f` goes on where it stopped when it is run again.'],
];

/** The command line makes no sense; the message says why. */
export class UsageError extends Error {}
/** It makes sense, but cannot be done. */
export class Failure extends Error {
  readonly exit: ExitCode;
  readonly code: string;
  readonly details: Record<string, unknown>;

  constructor(message: string, { exit = EXIT.failed, code = 'failed', details = {} }: Partial<Omit<Failure, keyof Error>> = {}) {
    super(message);
    this.exit = exit;
    this.code = code;
    this.details = details;
  }
}

type Value = string | boolean | (string | boolean)[] | undefined;

/** What was given on the command line. */
export class Given {
  readonly words: readonly string[];
  readonly json: boolean;
  readonly #values: Readonly<Record<string, Value>>;

  constructor(values: Readonly<Record<string, Value>>, words: readonly string[]) {
    this.#values = values;
    this.words = words;
    this.json = values['json'] === true;
  }

  /** The n-th word; their number has been checked. */
  word(n: number): string {
    return this.words[n] ?? '';
  }

  text(name: string): string | null {
    const value = this.#values[name];
    return typeof value === 'string' ? value : null;
  }

  /** A required option, or one of which another way of giving it is missing. */
  must(name: string): string {
    const value = this.text(name);
    if (value === null) throw new UsageError(`--${name} is missing.`);
    return value;
  }

  flag(name: string): boolean {
    return this.#values[name] === true;
  }

  texts(name: string): string[] {
    const value = this.#values[name];
    return Array.isArray(value) ? value.map(String) : [];
  }

  number(name: string, { min, max, whole = false }: { min: number; max: number; whole?: boolean }): number | null {
    const text = this.text(name);
    if (text === null) return null;
    const value = Number(text);
    if (text.trim() === '' || !(value >= min && value <= max) || (whole && !Number.isInteger(value)))
      throw new UsageError(`--${name} must be a ${whole ? 'whole ' : ''}number from ${min} to ${max}.`);
    return value;
  }
}

const UNIT_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** Milliseconds of `90d`, at most `max_d` days. */
export function durationMs(option: string, text: string, max_d: number): number {
  const [, digits = '', unit = ''] = /^(\d{1,9})([smhd])$/.exec(text) ?? [];
  const duration_ms = Number(digits) * (UNIT_MS[unit] ?? Number.NaN);
  if (!(duration_ms > 0 && duration_ms <= max_d * 86_400_000))
    throw new UsageError(`--${option} must be a number with s, m, h or d, such as 90d; at most ${max_d}d.`);
  return duration_ms;
}
