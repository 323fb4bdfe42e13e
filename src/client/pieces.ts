// The body of an answer, in the pieces between separators, as they come.

/** Yields each piece that is whole; what follows the last separator is left out. Rejects where the connection breaks. */
export async function* piecesOf(response: Response, separator: string): AsyncGenerator<string, void, undefined> {
  if (response.body === null) return;
  const decoder = new TextDecoder();
  const reader = response.body.getReader();
  let text = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      text += decoder.decode(value, { stream: true });
      const pieces = text.split(separator);
      text = pieces.pop() ?? '';
      yield* pieces;
    }
  } finally {
    void reader.cancel().catch(() => {});
  }
}
