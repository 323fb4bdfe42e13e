// The error table: every error a caller can see, its HTTP status and what it means.
// Code, OpenAPI and docs read from here; a caller never sees any other code.

export const ERRORS = {
  invalid_json: { status: 400, text: 'The body is not valid JSON.' },
  validation_error: { status: 400, text: 'The request is not valid.' },
  invalid_cron: { status: 400, text: 'The cron expression is not valid.' },
  invalid_timezone: { status: 400, text: 'The timezone is not a known IANA name.' },
  cron_never_fires: { status: 400, text: 'The cron expression does not fire within 5 years.' },
  target_not_allowed: { status: 400, text: 'The target points to a private or reserved address.' },
  rate_limiter_not_found: { status: 400, text: 'No rate limiter has this name.' },
  unauthorized: { status: 401, text: 'A valid access token is required.' },
  forbidden: { status: 403, text: 'The access token lacks the scope for this request.' },
  batch_not_found: { status: 404, text: 'No batch has this id.' },
  task_not_found: { status: 404, text: 'No task has this id.' },
  schedule_not_found: { status: 404, text: 'No schedule has this id.' },
  limiter_not_found: { status: 404, text: 'No rate limiter has this id.', code: 'rate_limiter_not_found' },
  notification_not_found: { status: 404, text: 'No notification has this id.' },
  not_found: { status: 404, text: 'There is nothing at this path.' },
  method_not_allowed: { status: 405, text: 'This path does not take this method.' },
  batch_completed: { status: 409, text: 'Tasks cannot be added to a completed batch.' },
  rate_limiter_name_taken: { status: 409, text: 'A rate limiter of this name exists already.' },
  idempotency_conflict: { status: 409, text: 'A request with this Idempotency-Key is still being processed.' },
  payload_too_large: { status: 413, text: 'The body is larger than allowed.' },
  unsupported_media_type: { status: 415, text: 'A body must be sent as application/json.' },
  batch_state_invalid: { status: 422, text: 'The state of the batch does not allow this.' },
  task_state_invalid: { status: 422, text: 'The state of the task does not allow this.' },
  idempotency_key_reused: { status: 422, text: 'This Idempotency-Key was used for another request.' },
  rate_limited: { status: 429, text: 'Too many requests.' },
  internal_error: { status: 500, text: 'Something went wrong on our side.' },
  unavailable: { status: 503, text: 'The service cannot take this request right now.' },
} as const satisfies Record<string, { status: number; text: string; code?: string }>;

export type ErrorName = keyof typeof ERRORS;

/** One fault of a request: where (JSON pointer into the body, or the name of a query parameter) and what. */
export interface Fault {
  path: string;
  message: string;
}

/** The code a caller reads: the row's name, or its `code` where one code has two statuses. */
export function wireCode(name: ErrorName): string {
  const row: { text: string; code?: string } = ERRORS[name];
  return row.code ?? name;
}

/** A refusal that becomes the answer `{"error": {code, message, details}}` with the status of its row. */
export class ApiError extends Error {
  readonly row: ErrorName;
  readonly details: Record<string, unknown>;
  /** Whole seconds for `Retry-After`; only with 429 and 503. */
  readonly retry_after_s: number | null;

  constructor(row: ErrorName, details: Record<string, unknown> = {}, options: { message?: string; retry_after_s?: number } = {}) {
    super(options.message ?? ERRORS[row].text);
    this.row = row;
    this.details = details;
    this.retry_after_s = options.retry_after_s ?? null;
  }

  /** HTTP status of this refusal. */
  get status(): number {
    return ERRORS[this.row].status;
  }
}
