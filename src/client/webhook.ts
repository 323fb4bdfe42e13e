// Checks that a callback or a notification comes from Sluice: Standard Webhooks 1.0, symmetric signatures.

export interface VerifyOptions {
  /** Seconds by which the time of the signature may differ from now, default 300. */
  tolerance_s?: number;
  /** ms since the epoch; default: the clock. */
  now_ms?: number;
}

/**
 * Whether `body`, the bytes as they came, was signed with one of these secrets (`whsec_…`). `headers` are those of the
 * request, by lower-case name. Never throws for what a stranger sent; throws for a secret that is none.
 */
export async function verifyWebhook(
  secrets: string | readonly string[],
  headers: Record<string, string | string[] | undefined>,
  body: Uint8Array | string,
  { tolerance_s = 300, now_ms = Date.now() }: VerifyOptions = {},
): Promise<boolean> {
  const [id, timestamp, signatures] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => headers[name]);
  if (typeof id !== 'string' || typeof timestamp !== 'string' || typeof signatures !== 'string') return false;
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(now_ms / 1000 - Number(timestamp)) > tolerance_s) return false;
  const encoder = new TextEncoder();
  const text = typeof body === 'string' ? encoder.encode(body) : body;
  const head = encoder.encode(`${id}.${timestamp}.`);
  const signed = new Uint8Array(head.length + text.length);
  signed.set(head);
  signed.set(text, head.length);
  for (const secret of typeof secrets === 'string' ? [secrets] : secrets) {
    const key = await crypto.subtle.importKey('raw', keyOf(secret), { name: 'HMAC', hash: 'SHA-256' }, false, ['verify']);
    for (const signature of signatures.split(' ')) {
      const bytes = signature.startsWith('v1,') ? fromBase64(signature.slice(3)) : null;
      // `verify` compares in constant time.
      if (bytes !== null && (await crypto.subtle.verify('HMAC', key, bytes, signed))) return true;
    }
  }
  return false;
}

function keyOf(secret: string): Uint8Array<ArrayBuffer> {
  const bytes = secret.startsWith('whsec_') ? fromBase64(secret.slice('whsec_'.length)) : null;
  if (bytes === null || bytes.length === 0) throw new TypeError('A signing secret begins with whsec_ and goes on in base64.');
  return bytes;
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | null {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return null;
  }
}
