// A reporter for node's test runner: how long the slowest test files took, as a table at the end.
// Plain JavaScript, since the runner loads its reporters before it knows TypeScript.
const SHOWN_MAX = 10;

export default async function* slowestFiles(events) {
  const took_ms = new Map();
  for await (const { type, data } of events) {
    // A file is reported like a test whose name is its path.
    if (type === 'test:complete' && data.file !== undefined && data.name === data.file) took_ms.set(data.file, data.details.duration_ms);
  }
  const rows = [...took_ms].sort(([, a], [, b]) => b - a).slice(0, SHOWN_MAX);
  if (rows.length > 0) yield '\nSlowest test files\n';
  const here = `${process.cwd()}/`;
  for (const [file, ms] of rows) yield `${(ms / 1000).toFixed(1).padStart(8)} s  ${file.replace(here, '')}\n`;
}
