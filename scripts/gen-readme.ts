// Writes the table of figures into README.md, between its markers, from the last full run of `make bench/table` in
// bench/results.jsonl: nobody copies a figure by hand.
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { withTable } from '../bench/table/readme.ts';

const README = fileURLToPath(new URL('../README.md', import.meta.url));
const RESULTS = new URL('../bench/results.jsonl', import.meta.url);

const before = readFileSync(README, 'utf8');
const after = withTable(before, readFileSync(RESULTS, 'utf8'));
if (after !== before) writeFileSync(README, after);
