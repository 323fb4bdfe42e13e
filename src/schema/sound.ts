// What of a value fits its schema although the rest of it does not, so that the rules beyond the schema can be held against it and a
// caller is told all faults at once. Runs only for what is refused.
import type { Fault } from '../base/errors.ts';
import { FAULTS_MAX, pointer } from './faults.ts';
import { RawJson } from './raw-json.ts';

/** The value at `at` without what `faults` point to; undefined where nothing is left, or where not all faults are known. */
export function soundPart(value: unknown, faults: readonly Fault[], at: string): unknown {
  return faults.length >= FAULTS_MAX ? undefined : without(value, new Set(faults.map(({ path }) => path)), at);
}

function without(value: unknown, places: ReadonlySet<string>, at: string): unknown {
  if (places.has(at)) return undefined;
  if (typeof value !== 'object' || value === null || value instanceof RawJson) return value;
  if (Array.isArray(value)) return value.map((item, i) => without(item, places, `${at}/${i}`));
  const sound: Record<string, unknown> = {};
  for (const [name, member] of Object.entries(value)) {
    const left = without(member, places, pointer(at, name));
    if (left !== undefined) sound[name] = left;
  }
  return sound;
}
