// What is deployed beside the service speaks of metrics that exist.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { renderDeploy } from '../../scripts/gen-deploy.ts';
import { ALERTS, type AlertRow } from '../../src/metrics/alerts.ts';
import { METRICS, type MetricRow } from '../../src/metrics/table.ts';

const table: Record<string, MetricRow> = METRICS;

/** What an expression names: metric and the labels that it selects by. */
function namesIn(expr: string): { metric: string; labels: string[] }[] {
  return [...expr.matchAll(/\bsluice_(\w+)(?:\{([^}]*)\})?/g)].map(([, name = '', selector = '']) => ({
    metric: name,
    labels: [...selector.matchAll(/(\w+)\s*[=!]/g)].map(([, label = '']) => label),
  }));
}

function rowOf(metric: string): MetricRow | undefined {
  return table[metric] ?? table[metric.replace(/_(bucket|count|sum)$/, '')];
}

test('every alert names metrics and labels of the table, and says what to do', () => {
  for (const [alert, { expr, runbook }] of Object.entries<AlertRow>(ALERTS)) {
    const names = namesIn(expr);
    assert.ok(names.length > 0, alert);
    for (const { metric, labels } of names) {
      const row = rowOf(metric);
      assert.ok(row, `${alert}: sluice_${metric} is no metric`);
      for (const label of labels) assert.ok(row.labels.includes(label), `${alert}: sluice_${metric} has no label ${label}`);
    }
    assert.ok(runbook.length > 0, alert);
  }
});

test('the rules point to entries that the runbook has', () => {
  const files = renderDeploy();
  const headings = [...(files['docs/runbook.md'] ?? '').matchAll(/^## (\w+)$/gm)].map(([, name = '']) => name.toLowerCase());
  const links = [...(files['deploy/prometheus/sluice.rules.yml'] ?? '').matchAll(/runbook\.md#(\w+)/g)].map(([, anchor = '']) => anchor);
  assert.deepEqual(links, headings);
});

test('the dashboard has a panel for every metric but the one that only names the build', () => {
  const dashboard = JSON.parse(renderDeploy()['deploy/grafana/sluice.json'] ?? '') as { panels: { targets: { expr: string }[] }[] };
  const shown = new Set(
    dashboard.panels.flatMap(({ targets }) => targets.flatMap(({ expr }) => namesIn(expr).map(({ metric }) => metric))),
  );
  const missing = Object.keys(table).filter((name) => !shown.has(name) && !shown.has(`${name}_bucket`));
  assert.deepEqual(missing, ['build_info']);
});
