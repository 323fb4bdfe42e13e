// A new schedule, with the next runs shown while the expression is written.
import { useEffect, useState } from 'preact/hooks';
import type { CronPreview, ScheduleCreate } from '../../client/index.ts';
import { useSession } from '../context.ts';
import { ErrorNote, Executions } from '../parts.tsx';
import { goTo } from '../route.ts';
import { messageOf } from '../session.ts';

const TYPING_MS = 250;
const ZONES: readonly string[] = ['UTC', ...Intl.supportedValuesOf('timeZone')];

interface Fields {
  cron: string;
  timezone: string;
  url: string;
  payload: string;
  enabled: boolean;
}

const FIRST: Fields = {
  cron: '0 9 * * MON-FRI',
  timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
  url: '',
  payload: '',
  enabled: true,
};

/** Throws what JSON.parse throws. */
function bodyOf({ cron, timezone, url, payload, enabled }: Fields): ScheduleCreate {
  return {
    cron,
    timezone,
    enabled,
    task_template: { target: url, ...(payload.trim() === '' ? {} : { payload: JSON.parse(payload) as unknown }) },
  };
}

export function ScheduleFormPage() {
  const { client } = useSession();
  const [fields, setFields] = useState(FIRST);
  const [error, setError] = useState<string | null>(null);
  const set = <K extends keyof Fields>(name: K, value: Fields[K]): void => setFields({ ...fields, [name]: value });
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      const { id } = await client.createSchedule(bodyOf(fields));
      goTo(`#/schedules/${id}`);
    } catch (thrown) {
      setError(thrown instanceof SyntaxError ? `The payload is no JSON: ${thrown.message}` : messageOf(thrown));
    }
  };
  return (
    <>
      <p class="crumb">
        <a href="#/schedules">Schedules</a> / new
      </p>
      <h1>New schedule</h1>
      <form class="card form" onSubmit={(event) => void submit(event)}>
        <div class="row">
          <label class="grow">
            Cron expression
            <input required spellcheck={false} value={fields.cron} onInput={({ currentTarget }) => set('cron', currentTarget.value)} />
          </label>
          <label class="grow">
            Time zone
            <input required list="zones" value={fields.timezone} onInput={({ currentTarget }) => set('timezone', currentTarget.value)} />
          </label>
          <datalist id="zones">
            {ZONES.map((zone) => (
              <option key={zone} value={zone} />
            ))}
          </datalist>
        </div>
        <Preview cron={fields.cron} timezone={fields.timezone} />
        <label>
          URL to call
          <input
            type="url"
            required
            placeholder="https://"
            value={fields.url}
            onInput={({ currentTarget }) => set('url', currentTarget.value)}
          />
        </label>
        <label>
          Payload, JSON
          <textarea
            rows={4}
            spellcheck={false}
            value={fields.payload}
            onInput={({ currentTarget }) => set('payload', currentTarget.value)}
          />
        </label>
        <label>
          <input type="checkbox" checked={fields.enabled} onChange={({ currentTarget }) => set('enabled', currentTarget.checked)} /> Enabled
        </label>
        <ErrorNote text={error} />
        <button type="submit">Create</button>
      </form>
    </>
  );
}

/** The next runs of what is being written, once the typing pauses. */
function Preview({ cron, timezone }: { cron: string; timezone: string }) {
  const { client } = useSession();
  const [shown, setShown] = useState<CronPreview | { refused: string } | null>(null);
  useEffect(() => {
    const stop = new AbortController();
    const ask = (): void =>
      void client
        .previewCron({ cron, timezone, limit: 5 }, { signal: stop.signal })
        .then(setShown, (thrown: unknown) => stop.signal.aborted || setShown({ refused: messageOf(thrown) }));
    const timer = setTimeout(ask, TYPING_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [client, cron, timezone]);
  if (shown === null) return null;
  if ('refused' in shown) return <ErrorNote text={shown.refused} />;
  return (
    <div aria-live="polite">
      <p class="hint">When it runs next:</p>
      <Executions timezone={timezone} executions={shown.executions} />
    </div>
  );
}
