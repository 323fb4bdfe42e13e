// Asks the registry whether what runs in production has known faults. Exits 1 where one is high or critical.
//
// Where nobody answers (no network, a mirror without advisories) it says so and passes: a build does not depend on a stranger.
import { spawnSync } from 'node:child_process';
import { pathToFileURL } from 'node:url';

const WAIT_MS = 30_000;
const GRAVE = new Set(['high', 'critical']);

interface Report {
  vulnerabilities?: Record<string, { severity: string; range: string; via: (string | { title?: string; url?: string })[] }>;
  metadata?: { dependencies?: { prod?: number } };
}

/** What `npm audit --json` printed: a line for each grave fault, or null where it is no report. */
export function graveIn(text: string): { grave: string[]; packages: number } | null {
  const report = read(text);
  if (report?.vulnerabilities === undefined || report.metadata === undefined) return null;
  const grave = Object.entries(report.vulnerabilities)
    .filter(([, { severity }]) => GRAVE.has(severity))
    .map(([name, { severity, range, via }]) => {
      const titles = via.map((one) => (typeof one === 'string' ? `by ${one}` : `${one.title ?? ''} ${one.url ?? ''}`.trim()));
      return `${name} ${range}: ${severity}: ${titles.join('; ')}`;
    });
  return { grave, packages: report.metadata.dependencies?.prod ?? 0 };
}

function read(text: string): Report | null {
  try {
    return JSON.parse(text) as Report;
  } catch {
    return null;
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const { stdout } = spawnSync('npm', ['audit', '--omit=dev', '--json'], { encoding: 'utf8', timeout: WAIT_MS });
  const found = graveIn(stdout ?? '');
  if (found === null) {
    console.log('Dependencies were not audited: the registry tells of no advisories.');
  } else if (found.grave.length === 0) {
    console.log(`${found.packages} packages of production have no fault that is known as high or critical.`);
  } else {
    console.error(found.grave.join('\n'));
    process.exitCode = 1;
  }
}
