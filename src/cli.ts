// The command line: `sluice serve`, what an operator does beside a running server, and what a script asks of the API.
// The commands are in cli/; docs/cli.md is made from their table.
import { run } from './cli/run.ts';

process.exitCode = await run(process.argv.slice(2));
