// `sluice secret …`: the secrets that sign the callbacks and notifications of an account.
import { accountId } from '../base/id.ts';
import { type Command, EXIT, type ExitCode, type Given } from './command.ts';
import { show, table, time } from './output.ts';
import { ACCOUNT, accountOf, withStore } from './redis.ts';

export const SECRET_COMMANDS: readonly Command[] = [
  {
    name: 'secret show',
    words: [],
    summary: 'Show the secrets that sign the callbacks of an account.',
    options: { account: { ...ACCOUNT, required: true } },
    needs: 'redis',
    run: (given) => secrets(given, 'signingSecrets'),
  },
  {
    name: 'secret rotate',
    words: [],
    summary: 'Make a new one; the old one stays valid for 24 hours.',
    options: { account: { ...ACCOUNT, required: true } },
    needs: 'redis',
    run: (given) => secrets(given, 'rotateSecret'),
  },
];

async function secrets(given: Given, ask: 'signingSecrets' | 'rotateSecret'): Promise<ExitCode> {
  const account = accountOf(given);
  const store = await import('../store/secrets.ts');
  const found = await withStore({}, ({ client }) => store[ask](client, accountId(account)));
  const fields = found.map(({ id, secret, created_ms, expires_ms }) => ({
    id,
    secret,
    created_at: time(created_ms),
    expires_at: expires_ms === null ? null : time(expires_ms),
  }));
  const rows = fields.map((one) => [one.id, one.secret, one.created_at, one.expires_at ?? 'never']);
  show(given.json, fields, () => table([['ID', 'SECRET', 'CREATED', 'EXPIRES'], ...rows]));
  return EXIT.done;
}
