import { form, type LimiterKind, units } from './kind.ts';

const RUNNING_MAX = 100_000;
const LOCK_TIMEOUT_S_MAX = 86_400;

export const CONCURRENT: LimiterKind = {
  letter: 'c',
  meaning:
    'At most `limit` tasks run at the same time. A slot whose holder died is free again when that is known, at the latest after `lock_timeout`.',
  use_for: 'The receiver can work on so many requests at once, whatever the rate: a database, a small server, a seat licence.',
  forms: [
    form(
      'ConcurrentConfig',
      'Slots for running tasks.',
      {
        limit: units('Tasks that may run at the same time.', RUNNING_MAX),
        lock_timeout: {
          type: 'integer',
          minimum: 1,
          maximum: LOCK_TIMEOUT_S_MAX,
          description: "Seconds after which a slot of a lost holder is free. Never less than a task's own timeout plus 60 is used.",
        },
      },
      ['lock_timeout'],
    ),
  ],
};
