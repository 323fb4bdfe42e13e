// `sluice partitions …`: into how many parts the work is divided.
import { type Command, EXIT, type ExitCode, Failure, type Given, UsageError } from './command.ts';
import { show, warn } from './output.ts';
import { withStore } from './redis.ts';

export const PARTITION_COMMANDS: readonly Command[] = [
  {
    name: 'partitions grow',
    words: ['NUMBER'],
    summary: 'Raise the number of partitions, also while servers run: they follow within 5 seconds. It never goes down again.',
    options: {},
    needs: 'redis',
    run: partitionsGrow,
  },
  { name: 'partitions', words: [], summary: 'Print the number of partitions.', options: {}, needs: 'redis', run: partitions },
];

async function partitions(given: Given): Promise<ExitCode> {
  const count = await withStore({}, async (store) => store.partitions);
  show(given.json, { partitions: count }, () => String(count));
  return EXIT.done;
}

async function partitionsGrow(given: Given): Promise<ExitCode> {
  const text = given.word(0);
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new UsageError('The number of partitions must be a whole number, such as 64.');
  const { growPartitions } = await import('../store/partition-count.ts');
  const outcome = await withStore({}, ({ client }) => growPartitions(client, Number(text)));
  if (outcome.kind === 'refused') throw new Failure(outcome.reason);
  show(given.json, { partitions: outcome.to, before: outcome.from }, () => String(outcome.to));
  if (!given.json) warn(`There were ${outcome.from} partitions, now there are ${outcome.to}.`);
  return EXIT.done;
}
