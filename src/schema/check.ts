// Is a value what its schema says? A validator that stops at the first fault answers for the many values that are fine;
// one that collects all faults runs only where the first one said no.
import type { Fault } from '../base/errors.ts';
import { faultsOf, type SchemaError } from './faults.ts';
import type { Queries, Schemas } from './types.gen.ts';
import * as first from './validators.gen.ts';
import * as every from './validators-all.gen.ts';

export type SchemaName = keyof Schemas;
export type QueryName = keyof Queries;
/** Bodies whose tasks are left unchecked; see `ENVELOPES` in registry.ts. */
export type EnvelopeName = 'BatchCreateEnvelope' | 'TasksAddEnvelope';
type Name = SchemaName | QueryName | EnvelopeName;

interface Validator {
  (value: unknown): boolean;
  errors?: readonly SchemaError[] | null;
}

const FIRST = new Map(Object.entries(first as unknown as Record<string, Validator>));
const EVERY = new Map(Object.entries(every as unknown as Record<string, Validator>));

/** The faults of a value, [] where it has none, at most 100. `at` is the JSON pointer of the value in its body. */
export function check(name: Name, value: unknown, at = ''): Fault[] {
  if (FIRST.get(name)?.(value) === true) return [];
  const validate = EVERY.get(name);
  if (validate === undefined) throw new Error(`No schema is called ${name}.`);
  return validate(value) ? [] : faultsOf(validate.errors ?? [], at);
}

/** Whether a value has no fault; for the schemas that have the fast validator. */
export function isValid(name: keyof typeof first, value: unknown): boolean {
  return FIRST.get(name)?.(value) === true;
}
