// Writes what operators deploy beside the service, from the metric and alert tables: a Grafana dashboard, Prometheus' rules,
// and the runbook that the rules point to.
//   node --import tsx scripts/gen-deploy.ts          writes them
//   node --import tsx scripts/gen-deploy.ts --check  exits 1 where one is stale
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ALERTS, type AlertRow } from '../src/metrics/alerts.ts';
import { METRICS, type MetricRow } from '../src/metrics/table.ts';

const ROOT = new URL('../', import.meta.url);
const RUNBOOK = 'docs/runbook.md';
const COLUMNS = 2;
const PANEL = { w: 24 / COLUMNS, h: 8 };

/** Path from the repository's root → text. */
export function renderDeploy(): Record<string, string> {
  return {
    'deploy/grafana/sluice.json': `${JSON.stringify(dashboard(), null, 2)}\n`,
    'deploy/prometheus/sluice.rules.yml': rules(),
    [RUNBOOK]: runbook(),
  };
}

function dashboard(): unknown {
  const rows = Object.entries<MetricRow>(METRICS).filter(([, row]) => row.kind !== 'gauge' || !row.labels.includes('version'));
  return {
    uid: 'sluice',
    title: 'Sluice',
    schemaVersion: 39,
    timezone: 'browser',
    refresh: '10s',
    time: { from: 'now-1h', to: 'now' },
    templating: { list: [{ name: 'source', label: 'Prometheus', type: 'datasource', query: 'prometheus' }] },
    panels: rows.map(([name, row], i) => panel(name, row, i)),
  };
}

function panel(name: string, row: MetricRow, i: number): unknown {
  const seconds = name.endsWith('_seconds');
  return {
    id: i + 1,
    type: 'timeseries',
    title: row.question,
    description: `sluice_${name}: ${row.help}`,
    gridPos: { ...PANEL, x: (i % COLUMNS) * PANEL.w, y: Math.floor(i / COLUMNS) * PANEL.h },
    datasource: { type: 'prometheus', uid: '$' + '{source}' },
    fieldConfig: {
      defaults: { unit: seconds ? 's' : name.endsWith('_bytes') ? 'bytes' : row.kind === 'counter' ? 'cps' : 'short', min: 0 },
      overrides: [],
    },
    targets: queries(`sluice_${name}`, row).map(({ expr, legend }, k) => ({
      refId: String.fromCharCode(65 + k),
      expr,
      legendFormat: legend,
    })),
  };
}

function queries(name: string, row: MetricRow): { expr: string; legend: string }[] {
  const by = row.labels.length === 0 ? '' : ` by (${row.labels.join(', ')})`;
  const legend = row.labels.map((label) => `{{${label}}}`).join(' ') || name;
  if (row.kind === 'counter') return [{ expr: `sum${by} (rate(${name}[$__rate_interval]))`, legend }];
  if (row.kind === 'gauge') return [{ expr: `${row.merge}${by} (${name})`, legend }];
  return [0.5, 0.99].map((quantile) => ({
    expr: `histogram_quantile(${quantile}, sum by (le) (rate(${name}_bucket[$__rate_interval])))`,
    legend: `p${quantile * 100}`,
  }));
}

function rules(): string {
  const alerts = Object.entries<AlertRow>(ALERTS).map(
    ([name, { expr, holds, severity, summary }]) => `      - alert: ${name}
        expr: ${JSON.stringify(expr)}
        for: ${holds}
        labels:
          severity: ${severity}
        annotations:
          summary: ${JSON.stringify(summary)}
          runbook: ${JSON.stringify(`${RUNBOOK}#${name.toLowerCase()}`)}
`,
  );
  return `# Made by scripts/gen-deploy.ts from src/metrics/alerts.ts. Do not edit.
groups:
  - name: sluice
    rules:
${alerts.join('')}`;
}

function runbook(): string {
  const entries = Object.entries<AlertRow>(ALERTS).map(
    ([name, { expr, holds, severity, summary, runbook: lines }]) => `## ${name}

${summary} *${severity === 'page' ? 'Somebody should look now.' : 'It can wait for the morning.'}*

\`\`\`promql
${expr}
\`\`\`

${holds === '0s' ? 'Sent at once.' : `Sent when it holds for ${holds}.`}

${lines.map((line) => `- ${line}`).join('\n')}
`,
  );
  return `<!-- Made by scripts/gen-deploy.ts from src/metrics/alerts.ts. Do not edit. -->

# Runbook

What each alert of \`deploy/prometheus/sluice.rules.yml\` means, and what to do about it. The metrics are in [metrics.md](metrics.md).

${entries.join('\n')}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [path, text] of Object.entries(renderDeploy())) {
    const url = new URL(path, ROOT);
    if (!process.argv.includes('--check')) {
      mkdirSync(dirname(fileURLToPath(url)), { recursive: true });
      writeFileSync(url, text);
    } else if (readFileSync(url, 'utf8') !== text) {
      console.error(`${path} is stale: run scripts/gen-deploy.ts`);
      process.exitCode = 1;
    }
  }
}
