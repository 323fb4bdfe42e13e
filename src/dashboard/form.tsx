// Forms, for what is new and for what is changed: what the service refuses is said at the field it is about, and what was
// typed stays.
import type { ComponentChildren, JSX } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { SluiceError } from '../client/index.ts';
import { ErrorNote } from './parts.tsx';
import { faultsOf, messageOf } from './session.ts';

/** What is wrong, by field. A field is named by its place in the body: `cron`, `config/limit`. */
export type Faults = Readonly<Record<string, string>>;

interface Refusal {
  faults: Faults;
  /** What is about no field of the form. */
  note: string | null;
}

const NO_REFUSAL: Refusal = { faults: {}, note: null };

/** Codes that are about one field without naming it. */
const FIELD_OF_CODE: Readonly<Record<string, string>> = {
  invalid_cron: 'cron',
  cron_never_fires: 'cron',
  invalid_timezone: 'timezone',
  rate_limiter_name_taken: 'name',
};

/** What is told of an error in a form with these fields. */
export function refusalOf(error: unknown, fields: readonly string[]): Refusal {
  if (!(error instanceof SluiceError)) return { faults: {}, note: messageOf(error) };
  const named = FIELD_OF_CODE[error.code];
  if (named !== undefined && fields.includes(named)) return { faults: { [named]: error.message }, note: null };
  const faults: Record<string, string> = {};
  const others: string[] = [];
  const all = faultsOf(error);
  for (const { path, message } of all) {
    const field = fields.find((name) => path === `/${name}` || path.startsWith(`/${name}/`));
    if (field === undefined) others.push(`${path}: ${message}`);
    else {
      const within = path.slice(field.length + 1);
      faults[field] = [faults[field], within === '' ? message : `${within} ${message}`].filter(Boolean).join('\n');
    }
  }
  return { faults, note: all.length > 0 && others.length === 0 ? null : [error.message, ...others].join('\n') };
}

interface FormProps {
  /** Those that show their faults; of two that hold a place the first one has it. */
  fields: readonly string[];
  label: string;
  /** What was found wrong before it was sent; null when it was done. Throws what the client throws. */
  send(): Promise<Faults | null>;
  onCancel?(): void;
  children(faults: Faults): ComponentChildren;
}

export function Form({ fields, label, send, onCancel, children }: FormProps) {
  const [refusal, setRefusal] = useState(NO_REFUSAL);
  const [busy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  // With what is shown, never after it: the focus would be taken from who has begun to type elsewhere.
  useLayoutEffect(() => {
    if (refusal !== NO_REFUSAL && !busy) form.current?.querySelector<HTMLElement>('[aria-invalid=true]')?.focus();
  }, [busy]);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    try {
      const faults = await send();
      setRefusal(faults === null ? NO_REFUSAL : { faults, note: null });
    } catch (error) {
      setRefusal(refusalOf(error, fields));
    }
    setBusy(false);
  };
  /** What is being mended is no longer complained about. */
  const mend = ({ target }: Event): void => {
    const name = (target as HTMLInputElement).name;
    if (!(name in refusal.faults)) return;
    const { [name]: _, ...faults } = refusal.faults;
    setRefusal({ ...refusal, faults });
  };
  return (
    <form ref={form} class="card form" onSubmit={(event) => void submit(event)} onInput={mend}>
      {children(refusal.faults)}
      <ErrorNote text={refusal.note} />
      <div class="row">
        <button type="submit" aria-busy={busy}>
          {label}
        </button>
        {onCancel !== undefined && (
          <button type="button" class="quiet" onClick={onCancel}>
            Cancel
          </button>
        )}
      </div>
    </form>
  );
}

interface Tied {
  id: string;
  name: string;
  'aria-invalid'?: true;
  'aria-describedby'?: string;
}

interface FieldProps {
  name: string;
  label: string;
  faults: Faults;
  grow?: boolean;
  /** The input, with what ties it to its fault. */
  children(tied: Tied): ComponentChildren;
}

export function Field({ name, label, faults, grow = false, children }: FieldProps) {
  const id = `field-${name}`;
  const fault = faults[name];
  const fault_id = `fault-${name}`;
  return (
    <div class={grow ? 'field grow' : 'field'}>
      <label for={id}>{label}</label>
      {children({ id, name, ...(fault === undefined ? {} : { 'aria-invalid': true, 'aria-describedby': fault_id }) })}
      {fault !== undefined && (
        <p class="fault" role="alert" id={fault_id}>
          {fault}
        </p>
      )}
    </div>
  );
}

/** Whether what a page shows is being changed there, and the button for it, which has the focus again afterwards. */
export function useEditing(): { editing: boolean; button: JSX.Element; close(): void } {
  const [editing, setEditing] = useState(false);
  const place = useRef<HTMLButtonElement>(null);
  const close = (): void => {
    setEditing(false);
    place.current?.focus();
  };
  const button = (
    <button type="button" ref={place} aria-expanded={editing} onClick={() => setEditing(!editing)}>
      Edit
    </button>
  );
  return { editing, button, close };
}

interface EditOptions<T> {
  /** What is changed, as it is now: asked for right before it is replaced. */
  ask(): Promise<T>;
  /** It is no longer what it was. */
  onChange(): void;
  onClose(): void;
}

interface Edit<T> {
  /** What the form began with. */
  base: T;
  fields: T;
  setFields(fields: T): void;
  /** It is not what the form began with any more. */
  overtaken: boolean;
  /** Begins anew, with what it is now. */
  reload(): void;
  /** Sends what was changed, null where nothing was; but first tells of what somebody else changed, where that was not told yet. */
  save(send: (() => Promise<unknown>) | null): Promise<Faults | null>;
}

/** The editing of something whose fields are shown as `latest`. */
export function useEdit<T>(latest: T, { ask, onChange, onClose }: EditOptions<T>): Edit<T> {
  const [base, setBase] = useState(latest);
  const [fields, setFields] = useState(latest);
  const reload = (): void => {
    setBase(latest);
    setFields(latest);
  };
  const save = async (send: (() => Promise<unknown>) | null): Promise<Faults | null> => {
    if (send !== null) {
      const told = same(await ask(), latest);
      if (told) await send();
      onChange();
      if (!told) return {};
    }
    onClose();
    return null;
  };
  return { base, fields, setFields, overtaken: !same(base, latest), reload, save };
}

/** Whatever the order of members is. */
export function same(a: unknown, b: unknown): boolean {
  const sorted = (_: string, value: unknown): unknown =>
    typeof value !== 'object' || value === null || Array.isArray(value)
      ? value
      : Object.fromEntries(Object.entries(value).sort(([x], [y]) => (x < y ? -1 : 1)));
  return JSON.stringify(a, sorted) === JSON.stringify(b, sorted);
}

interface EditingProps {
  title: string;
  overtaken: boolean;
  onReload(): void;
  children: ComponentChildren;
}

export function Editing({ title, overtaken, onReload, children }: EditingProps) {
  const place = useRef<HTMLElement>(null);
  useLayoutEffect(() => place.current?.querySelector<HTMLElement>('form :is(input, select, textarea)')?.focus(), []);
  return (
    <section class="editing" ref={place} aria-labelledby="edit">
      <h2 id="edit">{title}</h2>
      {overtaken && (
        <div class="notice" role="alert">
          <p>Somebody else has changed it meanwhile. What you save replaces theirs where you changed the same.</p>
          <button type="button" class="quiet" onClick={onReload}>
            Drop what I typed and show theirs
          </button>
        </div>
      )}
      {children}
    </section>
  );
}
