// A JSON document given as a file, as standard input (`-`), or right on the command line.
import { readFileSync } from 'node:fs';
import { Failure, UsageError } from './command.ts';

export function readJsonFile(file: string): Record<string, unknown> {
  let text: string;
  try {
    text = readFileSync(file === '-' ? 0 : file, 'utf8');
  } catch (error) {
    throw new Failure(`${file} cannot be read: ${error instanceof Error ? error.message : String(error)}`, { code: 'no_file' });
  }
  return objectOf(parse(text, file), file);
}

export function jsonOption(option: string, text: string): unknown {
  return parse(text, `--${option}`);
}

export function jsonObjectOption(option: string, text: string): Record<string, unknown> {
  return objectOf(jsonOption(option, text), `--${option}`);
}

function parse(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UsageError(`${what} is not JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function objectOf(value: unknown, what: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new UsageError(`${what} must be a JSON object.`);
  return value as Record<string, unknown>;
}
