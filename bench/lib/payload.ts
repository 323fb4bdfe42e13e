// The work that the benches hand in.

export const PAYLOAD_BYTES = 256;
export const BATCH_TASKS = 1_000;

/** A payload of so many bytes of JSON, different for each number. */
export function payload(number: number, bytes = PAYLOAD_BYTES): { n: number; text: string } {
  const bare = JSON.stringify({ n: number, text: '' }).length;
  return { n: number, text: 'x'.repeat(bytes - bare) };
}

/** A task as it is sent. */
export function task(url: string, number: number, fields: object = {}): object {
  return { target: { url, method: 'POST' }, payload: payload(number), ...fields };
}

/** The body that creates a batch of these tasks. */
export function batchBody(tasks: readonly object[], fields: object = {}): Buffer {
  return Buffer.from(JSON.stringify({ tasks, ...fields }));
}

/** Bodies of batches of `each` tasks with `count` tasks altogether; `fields` of each task, `batch_fields` of each batch. */
export function batchBodies(
  url: (index: number) => string,
  count: number,
  fields: object = {},
  batch_fields: object = {},
  each = BATCH_TASKS,
): Buffer[] {
  const bodies: Buffer[] = [];
  for (let from = 0; from < count; from += each) {
    const size = Math.min(each, count - from);
    bodies.push(
      batchBody(
        Array.from({ length: size }, (_, i) => task(url(from + i), from + i, fields)),
        batch_fields,
      ),
    );
  }
  return bodies;
}
