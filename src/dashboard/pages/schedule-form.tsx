// A schedule as fields, for a new one and for one that is changed, with the next runs shown while it is written.
import { useEffect, useState } from 'preact/hooks';
import type { Schedule, ScheduleExecution } from '../../client/index.ts';
import { useSession } from '../context.ts';
import { Editing, type Faults, Field, Form, refusalOf, useEdit } from '../form.tsx';
import { Executions } from '../parts.tsx';
import { goTo } from '../route.ts';
import { createOf, fieldsOf, type Kind, NEW_SCHEDULE, patchOf, type ScheduleFields, withKind } from '../schedule-fields.ts';

const TYPING_MS = 250;
const PREVIEW_RUNS = 5;
const ZONES: readonly string[] = ['UTC', ...Intl.supportedValuesOf('timeZone')];
/** As the service takes them. */
const TIME_MIN = '2000-01-02T00:00';
const TIME_MAX = '2100-12-30T23:59:59';
const TIMING = ['cron', 'timezone', 'start_at', 'end_at'] as const;
const KINDS: Readonly<Record<Kind, string>> = {
  call: 'One call',
  task_template: 'A task, as JSON',
  batch_template: 'A batch, as JSON',
};

/** Those that show faults. */
function namesOf(kind: Kind): readonly string[] {
  return [...TIMING, ...(kind === 'call' ? ['task_template/target', 'task_template/payload'] : [kind])];
}

export function ScheduleFormPage() {
  const { client } = useSession();
  const [fields, setFields] = useState(NEW_SCHEDULE);
  const [enabled, setEnabled] = useState(true);
  const send = async (): Promise<Faults | null> => {
    const read = createOf(fields, enabled);
    if ('faults' in read) return read.faults;
    const { id } = await client.createSchedule(read.value);
    goTo(`#/schedules/${id}`);
    return null;
  };
  return (
    <>
      <p class="crumb">
        <a href="#/schedules">Schedules</a> / new
      </p>
      <h1>New schedule</h1>
      <Form fields={namesOf(fields.kind)} label="Create" send={send}>
        {(faults) => (
          <>
            <ScheduleInputs fields={fields} faults={faults} kinds={['call', 'task_template', 'batch_template']} onFields={setFields} />
            <label>
              <input type="checkbox" checked={enabled} onChange={({ currentTarget }) => setEnabled(currentTarget.checked)} /> Enabled
            </label>
          </>
        )}
      </Form>
    </>
  );
}

interface ScheduleEditProps {
  /** As it is now. */
  schedule: Schedule;
  /** Asks for it again. */
  onChange(): void;
  onClose(): void;
}

/** Changes a schedule; what was not touched is not sent, so that it stays as somebody else may have made it meanwhile. */
export function ScheduleEdit({ schedule, onChange, onClose }: ScheduleEditProps) {
  const { client } = useSession();
  const { id } = schedule;
  const ask = async (): Promise<ScheduleFields> => fieldsOf(await client.getSchedule(id));
  const { base, fields, setFields, overtaken, reload, save } = useEdit(fieldsOf(schedule), { ask, onChange, onClose });
  const send = async (): Promise<Faults | null> => {
    const read = patchOf(base, fields);
    if ('faults' in read) return read.faults;
    return save(Object.keys(read.value).length === 0 ? null : () => client.patchSchedule(id, read.value));
  };
  return (
    <Editing title="Change when it runs, and what" overtaken={overtaken} onReload={reload}>
      <Form fields={namesOf(fields.kind)} label="Save" send={send} onCancel={onClose}>
        {(faults) => <ScheduleInputs fields={fields} faults={faults} kinds={['task_template', 'batch_template']} onFields={setFields} />}
      </Form>
    </Editing>
  );
}

interface InputsProps {
  fields: ScheduleFields;
  faults: Faults;
  kinds: readonly Kind[];
  onFields(fields: ScheduleFields): void;
}

function ScheduleInputs({ fields, faults: refused, kinds, onFields }: InputsProps) {
  const preview = usePreview(fields);
  const faults: Faults = { ...preview.faults, ...refused };
  const set = (name: keyof ScheduleFields, value: string): void => onFields({ ...fields, [name]: value });
  return (
    <>
      <div class="row">
        <Field name="cron" label="Cron expression" faults={faults} grow>
          {(tied) => (
            <input
              {...tied}
              required
              spellcheck={false}
              value={fields.cron}
              onInput={({ currentTarget }) => set('cron', currentTarget.value)}
            />
          )}
        </Field>
        <Field name="timezone" label="Time zone" faults={faults} grow>
          {(tied) => (
            <input
              {...tied}
              required
              list="zones"
              value={fields.timezone}
              onInput={({ currentTarget }) => set('timezone', currentTarget.value)}
            />
          )}
        </Field>
        <datalist id="zones">
          {ZONES.map((zone) => (
            <option key={zone} value={zone} />
          ))}
        </datalist>
      </div>
      <div class="row">
        {(['start_at', 'end_at'] as const).map((name) => (
          <Field key={name} name={name} label={name === 'start_at' ? 'From, on your clock' : 'Until, on your clock'} faults={faults} grow>
            {(tied) => (
              <input
                {...tied}
                type="datetime-local"
                step={1}
                min={TIME_MIN}
                max={TIME_MAX}
                value={fields[name]}
                onInput={({ currentTarget }) => set(name, currentTarget.value)}
              />
            )}
          </Field>
        ))}
      </div>
      {preview.executions !== null && (
        <div aria-live="polite">
          <p class="hint">When it runs next:</p>
          <Executions timezone={fields.timezone} executions={preview.executions} />
        </div>
      )}
      <fieldset class="row">
        <legend>What runs</legend>
        {kinds.map((kind) => (
          <label key={kind}>
            <input type="radio" name="kind" checked={fields.kind === kind} onChange={() => onFields(withKind(fields, kind))} />{' '}
            {KINDS[kind]}
          </label>
        ))}
      </fieldset>
      <TemplateInputs fields={fields} faults={faults} set={set} />
    </>
  );
}

interface TemplateInputsProps {
  fields: ScheduleFields;
  faults: Faults;
  set(name: keyof ScheduleFields, value: string): void;
}

function TemplateInputs({ fields, faults, set }: TemplateInputsProps) {
  const { kind } = fields;
  if (kind !== 'call') {
    return (
      <Field key={kind} name={kind} label={kind === 'task_template' ? 'Task template, JSON' : 'Batch template, JSON'} faults={faults}>
        {(tied) => (
          <textarea
            {...tied}
            rows={12}
            required
            spellcheck={false}
            value={fields[kind]}
            onInput={({ currentTarget }) => set(kind, currentTarget.value)}
          />
        )}
      </Field>
    );
  }
  return (
    <>
      <Field name="task_template/target" label="URL to call" faults={faults}>
        {(tied) => (
          <input
            {...tied}
            type="url"
            required
            placeholder="https://"
            value={fields.url}
            onInput={({ currentTarget }) => set('url', currentTarget.value)}
          />
        )}
      </Field>
      <Field name="task_template/payload" label="Payload, JSON" faults={faults}>
        {(tied) => (
          <textarea
            {...tied}
            rows={4}
            spellcheck={false}
            value={fields.payload}
            onInput={({ currentTarget }) => set('payload', currentTarget.value)}
          />
        )}
      </Field>
    </>
  );
}

interface Preview {
  executions: readonly ScheduleExecution[] | null;
  faults: Faults;
}

/** The next runs of what is being written, once the typing pauses. */
function usePreview({ cron, timezone, start_at, end_at }: ScheduleFields): Preview {
  const { client } = useSession();
  const [shown, setShown] = useState<Preview>({ executions: null, faults: {} });
  useEffect(() => {
    const stop = new AbortController();
    const start_ms = new Date(start_at).getTime() || 0;
    const end_ms = new Date(end_at).getTime() || Number.POSITIVE_INFINITY;
    // A preview begins after an instant, a schedule with it.
    const from = start_ms > Date.now() ? { start_from: new Date(start_ms - 1).toISOString() } : {};
    const ask = (): void =>
      void client.previewCron({ cron, timezone, limit: PREVIEW_RUNS, ...from }, { signal: stop.signal }).then(
        ({ executions }) => {
          const within = executions.filter(({ scheduled_for }) => new Date(scheduled_for).getTime() <= end_ms);
          setShown({ executions: within, faults: {} });
        },
        // Where nothing can be shown now, saving it says why.
        (thrown: unknown) => stop.signal.aborted || setShown({ executions: null, faults: refusalOf(thrown, TIMING).faults }),
      );
    const timer = setTimeout(ask, TYPING_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [client, cron, timezone, start_at, end_at]);
  return shown;
}
