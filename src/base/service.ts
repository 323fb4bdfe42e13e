/** Something that runs until stopped. Stopping twice, or before starting, is safe. */
export interface Service {
  readonly name: string;
  start(): Promise<void>;
  /** Resolves when no work of this service is in flight, at the latest after `deadline_ms`. */
  stop(deadline_ms: number): Promise<void>;
}

/** Starts in order; on `stopped` stops in reverse order, so a service never outlives what it depends on. */
export async function runAll(services: readonly Service[], stopped: Promise<void>, stop_ms: number): Promise<void> {
  const started: Service[] = [];
  try {
    for (const service of services) {
      await service.start();
      started.push(service);
    }
    await stopped;
  } finally {
    for (const service of started.reverse()) await service.stop(stop_ms);
  }
}
