// The table of failures: the codes a task's `result.error` can carry, and which error of Node or undici means which.
// Messages are ours alone: those of Node and undici name resolved addresses.

export const FAILURES = {
  http_status: 'The answer was not a success.',
  timeout: 'No complete answer came in time.',
  dns: 'The host name could not be resolved.',
  connect: 'The connection could not be opened.',
  tls: 'The TLS connection could not be made.',
  reset: 'The connection was lost before an answer came.',
  protocol: 'The answer is not valid HTTP.',
  target_blocked: 'The target points to a private or reserved address.',
  shutdown: 'The process stopped before an answer came.',
  stale: 'The call was not sent: its time was over, or others may have taken it over.',
  cancelled: 'The call was cancelled before an answer came.',
} as const;

export type FailureCode = keyof typeof FAILURES;

/** Codes of the errors that our own connector raises; chosen so that nothing else uses them. */
export const EBLOCKED = 'EBLOCKED';
export const EDNS = 'EDNS';

/** An error raised by the connector; `code` is what undici hands back to us. */
export class ConnectError extends Error {
  readonly code: typeof EBLOCKED | typeof EDNS | 'ECONNRESET';
  /** For `EDNS`: what the resolver said, e.g. `ENOTFOUND`. */
  readonly reason: string | null;

  constructor(code: typeof EBLOCKED | typeof EDNS | 'ECONNRESET', reason: string | null = null) {
    super(code);
    this.code = code;
    this.reason = reason;
  }
}

/** How far the request was when the error came. */
export type Stage = 'connecting' | 'sent';

const CONNECT_CODES = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'EHOSTDOWN',
  'ENETUNREACH',
  'ENETDOWN',
  'ETIMEDOUT',
  'EADDRNOTAVAIL',
  'EACCES',
  'EPERM',
  'EMFILE',
  'ENFILE',
  'EINVAL',
  'EAFNOSUPPORT',
  'UND_ERR_CONNECT_TIMEOUT',
]);
const TLS_CODE = /^(ERR_TLS_|ERR_SSL_|CERT_|UNABLE_TO_|CRL_|DEPTH_ZERO|SELF_SIGNED|HOSTNAME_MISMATCH|INVALID_CA|INVALID_PURPOSE|EPROTO$)/;
const PROTOCOL_CODE = /^(HPE_|UND_ERR_HEADERS_OVERFLOW$|UND_ERR_RES_|UND_ERR_INVALID_ARG$|UND_ERR_NOT_SUPPORTED$|ERR_ASSERTION$)/;
/** What undici says, under the code of a lost socket, to a 100 that nobody asked for and to an unasked upgrade. */
const PROTOCOL_MESSAGE = /^bad (response|upgrade)$/;
const PLAIN_CODE = /^[A-Z][A-Z0-9_]{2,47}$/;

/** What an error from the connection means. */
export function failureOf(error: Error, stage: Stage, secure: boolean): { code: FailureCode; message: string } {
  const raw = codeOf(error);
  if (raw === EBLOCKED) return { code: 'target_blocked', message: FAILURES.target_blocked };
  if (raw === EDNS) return describe('dns', error instanceof ConnectError ? error.reason : null);
  if (TLS_CODE.test(raw)) return describe('tls', raw);
  if (PROTOCOL_CODE.test(raw) || error.name === 'HTTPParserError' || PROTOCOL_MESSAGE.test(error.message)) return describe('protocol', raw);
  if (stage === 'sent') return describe('reset', raw);
  if (secure && !CONNECT_CODES.has(raw)) return describe('tls', raw);
  return describe('connect', raw);
}

function codeOf(error: Error): string {
  const code: unknown = 'code' in error ? error.code : undefined;
  return typeof code === 'string' ? code : '';
}

/** The table's text, and the bare code of the error where it has one: `… (ECONNREFUSED)`. */
function describe(code: FailureCode, raw: string | null): { code: FailureCode; message: string } {
  const text = FAILURES[code];
  const shown = raw === 'UND_ERR_CONNECT_TIMEOUT' ? 'ETIMEDOUT' : raw;
  if (shown === null || !PLAIN_CODE.test(shown) || shown.startsWith('UND_')) return { code, message: text };
  return { code, message: `${text.slice(0, -1)} (${shown}).` };
}
