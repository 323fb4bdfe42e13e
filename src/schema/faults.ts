// From what a validator reports to what a caller reads: one fault for each place, in words, and never the value itself.
import type { Fault } from '../base/errors.ts';
import { FORMAT_MESSAGE, patternMessage } from './formats.ts';

/** An answer shows at most this many. */
export const FAULTS_MAX = 100;
/** A caller chooses the names in a path, and we do not send megabytes back. */
const PATH_LENGTH_MAX = 512;

/** What Ajv's code reports (its `messages` are off). */
export interface SchemaError {
  keyword: string;
  instancePath: string;
  params: Readonly<Record<string, unknown>>;
  propertyName?: string;
}

/** Faults in the order they were found, the first one of each place, at most 100. `at` is the pointer of the value that was checked. */
export function faultsOf(errors: readonly SchemaError[], at: string): Fault[] {
  const faults = new Map<string, Fault>();
  for (const error of errors) {
    if (faults.size >= FAULTS_MAX) break;
    if (REPEATING.has(error.keyword)) continue;
    const path = shorten(at + error.instancePath + lastStep(error));
    if (!faults.has(path)) faults.set(path, { path, message: message(error) });
  }
  return [...faults.values()];
}

/** Keywords that only repeat what the schema within them reported. */
const REPEATING = new Set(['propertyNames', 'if', 'anyOf']);

/** A step of a JSON pointer. */
export function step(name: string): string {
  return `/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

/** Of a member, as a fault shows it. */
export function pointer(at: string, name: string): string {
  return shorten(at + step(name));
}

function shorten(path: string): string {
  return path.length > PATH_LENGTH_MAX ? `${path.slice(0, PATH_LENGTH_MAX)}…` : path;
}

/** A missing or unknown property is named by its own pointer, not its parent's. */
function lastStep(error: SchemaError): string {
  const name = error.params.missingProperty ?? error.params.additionalProperty ?? error.propertyName;
  return typeof name === 'string' ? step(name) : '';
}

function message({ keyword, instancePath, params }: SchemaError): string {
  const limit = String(params.limit);
  switch (keyword) {
    case 'required':
      return 'is required';
    case 'additionalProperties':
      return 'is not a known field';
    case 'type':
      return instancePath.endsWith('/target') ? 'must be a URL string or an object' : `must be ${kinds(params.type)}`;
    case 'enum':
      return `must be one of ${(params.allowedValues as readonly unknown[]).join(', ')}`;
    case 'pattern':
      return patternMessage(String(params.pattern));
    case 'format':
      return FORMAT_MESSAGE[String(params.format)] ?? 'is not well-formed';
    case 'minLength':
      return limit === '1' ? 'must not be empty' : `must have at least ${limit} characters`;
    case 'maxLength':
      return `must have at most ${limit} characters`;
    case 'minItems':
      return `must have at least ${limit} ${limit === '1' ? 'item' : 'items'}`;
    case 'maxItems':
      return `must have at most ${limit} items`;
    case 'minProperties':
      return `must have at least ${limit} ${limit === '1' ? 'field' : 'fields'}`;
    case 'maxProperties':
      return `must have at most ${limit} entries`;
    case 'minimum':
      return `must be at least ${limit}`;
    case 'maximum':
      return `must be at most ${limit}`;
    case 'exclusiveMinimum':
      return `must be more than ${limit}`;
    case 'not':
      return 'cannot be changed';
    default:
      return 'is not valid';
  }
}

const KIND: Record<string, string> = {
  string: 'a string',
  integer: 'an integer',
  number: 'a number',
  boolean: 'true or false',
  object: 'an object',
  array: 'an array',
  null: 'null',
};

function kinds(type: unknown): string {
  return (Array.isArray(type) ? type : [type]).map((one) => KIND[String(one)] ?? String(one)).join(' or ');
}
