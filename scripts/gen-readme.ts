// Writes the tables of figures into README.md, between their markers, from bench/results.jsonl: the last full run of `make bench/table`, and
// each row of bench/main.ts. Nobody copies a figure by hand.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { withRows } from '../bench/shown.ts';
import { withTable } from '../bench/table/readme.ts';

const README = fileURLToPath(new URL('../README.md', import.meta.url));
const RESULTS = new URL('../bench/results.jsonl', import.meta.url);

const before = readFileSync(README, 'utf8');
const results = readFileSync(RESULTS, 'utf8');
const after = withRows(withTable(before, results), results);
if (after !== before) writeFileSync(README, after);
