// How often a test with random input tries. `make test` tries a few, each time with others; `make test/full` many: TEST_RUNS times as many.

/** `few`, or a multiple of it. */
export function runs(few: number): number {
  return few * Number(process.env['TEST_RUNS'] ?? 1);
}
