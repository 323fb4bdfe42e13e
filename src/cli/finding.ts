// What the doctor has to say of one thing.

export interface Finding {
  /** What was looked at, in a word or two. */
  check: string;
  /** `fault`: Sluice does not run, or loses work. `warning`: it runs, but not as it could. */
  state: 'ok' | 'warning' | 'fault';
  found: string;
  /** What to do; null where all is well. */
  mend: string | null;
}

export function ok(check: string, found: string): Finding {
  return { check, state: 'ok', found, mend: null };
}

export function warning(check: string, found: string, mend: string): Finding {
  return { check, state: 'warning', found, mend };
}

export function fault(check: string, found: string, mend: string): Finding {
  return { check, state: 'fault', found, mend };
}
