/** A command as Redis reads it (RESP), behind bytes that go out before it. */
export function commandOf(parts: readonly (string | Buffer)[], before = ''): Buffer {
  const pieces: Buffer[] = [];
  let text = `${before}*${parts.length}\r\n`;
  for (const part of parts) {
    if (typeof part === 'string') text += `$${Buffer.byteLength(part)}\r\n${part}\r\n`;
    else {
      pieces.push(Buffer.from(`${text}$${part.length}\r\n`), part);
      text = '\r\n';
    }
  }
  pieces.push(Buffer.from(text));
  return Buffer.concat(pieces);
}
