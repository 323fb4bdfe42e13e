// What an engine says about itself on /metrics.

/** One number; 0 where there is none yet. `name` is without the prefix, with labels as they are written: `threads{pool="callbacks"}`. */
export async function metric(engine: { url: string }, name: string): Promise<number> {
  const text = await (await fetch(`${engine.url}/metrics`)).text();
  const start = `sluice_${name} `;
  const line = text.split('\n').find((one) => one.startsWith(start));
  return Number(line?.slice(start.length) ?? 0);
}

/** Callbacks that ended well so far, by this engine. */
export function callbacks(engine: { url: string }): Promise<number> {
  return metric(engine, 'callbacks_total{outcome="completed"}');
}

/** Callbacks under way, as of a second ago. */
export function inFlight(engine: { url: string }): Promise<number> {
  return metric(engine, 'callbacks_in_flight');
}
