// W3C Trace Context: which trace a request belongs to, as its headers say it. Read once at the door, kept with tasks as text.
//   https://www.w3.org/TR/trace-context/

/** Headers as they are sent on. */
export interface TraceContext {
  /** `00-<trace id>-<parent id>-<flags>`. */
  traceparent: string;
  /** What the systems of the caller have to say to one another; '' for none. */
  tracestate: string;
}

export interface TraceParent {
  trace_id: string;
  parent_id: string;
  /** Two hexadecimal digits; bit 0: the caller records this trace. */
  flags: string;
}

/**
 * Stands for the trace of a request that came without one and of which the sampler said no: neither is what it makes traced. The same
 * for all such requests, so that what they make may still lie together.
 */
export const NOT_SAMPLED: TraceContext = { traceparent: '', tracestate: '' };

const TRACEPARENT = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(-.*)?$/;
const TRACESTATE_MEMBER = /^[a-z\d][\w\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/;
const TRACESTATE_MEMBERS_MAX = 32;
/** What the standard asks everybody to carry; a longer one is dropped whole. */
const TRACESTATE_MAX = 512;

/** The context of a request; null where it has none, or one that is not valid, which counts as none. */
export function readTraceContext(traceparent: string, tracestate: string): TraceContext | null {
  if (traceparent === '') return null;
  const [, version, trace_id = '', parent_id = '', flags, more] = TRACEPARENT.exec(traceparent) ?? [];
  if (version === undefined || version === 'ff' || (version === '00' && more !== undefined)) return null;
  if (isZero(trace_id) || isZero(parent_id)) return null;
  // What a later version adds is not known here, so what is sent on is what this one has.
  return { traceparent: `00-${trace_id}-${parent_id}-${flags}`, tracestate: isTraceState(tracestate) ? tracestate : '' };
}

/** The parts of a `traceparent` that was read before. */
export function partsOf(traceparent: string): TraceParent {
  const [, trace_id = '', parent_id = '', flags = ''] = traceparent.split('-');
  return { trace_id, parent_id, flags };
}

function isZero(hex: string): boolean {
  return /^0+$/.test(hex);
}

function isTraceState(text: string): boolean {
  if (text === '' || text.length > TRACESTATE_MAX) return false;
  const members = text.split(',').map((member) => member.trim());
  return members.length <= TRACESTATE_MEMBERS_MAX && members.every((member) => member === '' || TRACESTATE_MEMBER.test(member));
}
