// The store, for commands that work on Redis itself, by the settings of the server. Loaded by who needs it: it is most of what a command would have to read.
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { loadConfig } from '../config.ts';
import type { Store } from '../store/connect.ts';
import { isAccountName } from '../store/tokens.ts';
import { Failure, type Given, type Option, UsageError } from './command.ts';

export const ACCOUNT: Option = { type: 'string', value: 'NAME', meaning: 'The account.' };

/**
 * Runs `work` on the Redis that the settings name. Where that is the embedded one, a running server's is shared, else it
 * is started for as long as this takes. `fresh`: also where there is no data directory yet.
 */
export async function withStore<T>({ fresh = false }: { fresh?: boolean }, work: (store: Store) => Promise<T>): Promise<T> {
  const { redis_url, data_dir, partitions } = loadConfig(process.env);
  if (redis_url === null && !fresh && !existsSync(data_dir)) {
    throw new Failure(
      `There is no data directory ${resolve(data_dir)}: run this where the server runs, or set SLUICE_DATA_DIR or SLUICE_REDIS_URL.`,
    );
  }
  const [{ createLog }, { openStore }] = await Promise.all([import('../base/log.ts'), import('../store/connect.ts')]);
  const log = createLog({ level: 'error', destination: process.stderr });
  const store = await openStore({ redis_url, data_dir, partitions, log, role: 'cli' });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

export function accountOf(given: Given): string {
  const account = given.must('account');
  if (!isAccountName(account)) throw new UsageError('An account name is 1 to 64 visible ASCII characters, without comma and equals sign.');
  return account;
}
