// The body of every answer that is an error.
import { ERRORS, type ErrorName, wireCode } from '../base/errors.ts';
import { closed, type SchemaTable } from './definition.ts';

const CODES = [...new Set((Object.keys(ERRORS) as ErrorName[]).map(wireCode))];

export const ERROR_SCHEMAS = {
  ErrorReply: closed(
    'Why a request was refused.',
    {
      error: closed(
        '',
        {
          code: { type: 'string', enum: CODES, description: 'For programs.' },
          message: { type: 'string', description: 'For people.' },
          details: { type: 'object', description: 'Context. With validation_error: errors, an array of {path, message}, at most 100.' },
        },
        ['code', 'message', 'details'],
      ),
    },
    ['error'],
  ),
} as const satisfies SchemaTable;
