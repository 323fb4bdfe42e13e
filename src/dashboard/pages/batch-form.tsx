// Creating a batch by hand: one call made several times over, or the tasks as JSON.
import { useState } from 'preact/hooks';
import type { BatchCreate, TaskInput } from '../../client/index.ts';
import { useSession } from '../context.ts';
import { ErrorNote } from '../parts.tsx';
import { goTo } from '../route.ts';
import { messageOf } from '../session.ts';

const METHODS = ['POST', 'GET', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS'] as const;
const COPIES_MAX = 10_000;
const EXAMPLE = `[
  { "target": "https://example.com/hook", "payload": { "order": 1 } },
  { "target": "https://example.com/hook", "payload": { "order": 2 } }
]`;

interface Fields {
  description: string;
  mode: 'one' | 'json';
  url: string;
  method: (typeof METHODS)[number];
  payload: string;
  copies: number;
  json: string;
  on_finish: string;
}

const FIRST: Fields = { description: '', mode: 'one', url: '', method: 'POST', payload: '', copies: 1, json: EXAMPLE, on_finish: '' };

/** Throws what JSON.parse throws. */
function bodyOf(fields: Fields): BatchCreate {
  const tasks =
    fields.mode === 'json' ? (JSON.parse(fields.json) as TaskInput[]) : Array.from({ length: fields.copies }, () => taskOf(fields));
  return {
    tasks,
    ...(fields.description === '' ? {} : { description: fields.description }),
    ...(fields.on_finish === '' ? {} : { notifications: { on_finish: { url: fields.on_finish } } }),
  };
}

function taskOf({ url, method, payload }: Fields): TaskInput {
  return { target: { url, method }, ...(payload.trim() === '' ? {} : { payload: JSON.parse(payload) as unknown }) };
}

export function BatchFormPage() {
  const { client } = useSession();
  const [fields, setFields] = useState(FIRST);
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const set = <K extends keyof Fields>(name: K, value: Fields[K]): void => setFields({ ...fields, [name]: value });
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    try {
      const { id } = await client.createBatch(bodyOf(fields));
      goTo(`#/batches/${id}`);
    } catch (thrown) {
      setError(thrown instanceof SyntaxError ? `This is no JSON: ${thrown.message}` : messageOf(thrown));
    }
    setBusy(false);
  };
  return (
    <>
      <p class="crumb">
        <a href="#/batches">Batches</a> / new
      </p>
      <h1>New batch</h1>
      <form class="card form" onSubmit={(event) => void submit(event)}>
        <label>
          Description
          <input maxLength={1024} value={fields.description} onInput={({ currentTarget }) => set('description', currentTarget.value)} />
        </label>
        <fieldset class="row">
          <legend>Tasks</legend>
          <label>
            <input type="radio" name="mode" checked={fields.mode === 'one'} onChange={() => set('mode', 'one')} /> One call, repeated
          </label>
          <label>
            <input type="radio" name="mode" checked={fields.mode === 'json'} onChange={() => set('mode', 'json')} /> As JSON
          </label>
        </fieldset>
        {fields.mode === 'one' ? (
          <OneCall fields={fields} set={set} />
        ) : (
          <AsJson value={fields.json} onValue={(value) => set('json', value)} />
        )}
        <label>
          Tell this URL when all is finished
          <input
            type="url"
            placeholder="https://"
            value={fields.on_finish}
            onInput={({ currentTarget }) => set('on_finish', currentTarget.value)}
          />
        </label>
        <ErrorNote text={error} />
        <button type="submit" aria-busy={busy}>
          {busy ? 'Creating…' : 'Create'}
        </button>
      </form>
    </>
  );
}

interface OneCallProps {
  fields: Fields;
  set<K extends keyof Fields>(name: K, value: Fields[K]): void;
}

function OneCall({ fields, set }: OneCallProps) {
  return (
    <>
      <div class="row">
        <label>
          Method
          <select value={fields.method} onChange={({ currentTarget }) => set('method', currentTarget.value as Fields['method'])}>
            {METHODS.map((method) => (
              <option key={method}>{method}</option>
            ))}
          </select>
        </label>
        <label class="grow">
          URL
          <input
            type="url"
            required
            placeholder="https://"
            value={fields.url}
            onInput={({ currentTarget }) => set('url', currentTarget.value)}
          />
        </label>
        <label>
          Times
          <input
            type="number"
            min={1}
            max={COPIES_MAX}
            required
            value={fields.copies}
            onInput={({ currentTarget }) => set('copies', Number(currentTarget.value))}
          />
        </label>
      </div>
      <label>
        Payload, JSON
        <textarea rows={4} spellcheck={false} value={fields.payload} onInput={({ currentTarget }) => set('payload', currentTarget.value)} />
      </label>
    </>
  );
}

function AsJson({ value, onValue }: { value: string; onValue(value: string): void }) {
  return (
    <label>
      Tasks, a JSON array
      <textarea rows={12} spellcheck={false} required value={value} onInput={({ currentTarget }) => onValue(currentTarget.value)} />
    </label>
  );
}
