// What a rate limiter allows, as fields: for a new one, and for one that is changed.
import { useState } from 'preact/hooks';
import type { Limiter, LimiterTimeouts } from '../../client/index.ts';
import { useSession } from '../context.ts';
import { KINDS, type Kind, kindOf } from '../limiter-kinds.ts';
import { ErrorNote } from '../parts.tsx';
import { goTo } from '../route.ts';
import { messageOf } from '../session.ts';

const TIMEOUT_S_MAX = 604_800;

interface Rules {
  config: Record<string, unknown>;
  timeouts: LimiterTimeouts;
  cooldown: 'task' | 'limiter';
}

/** Without timeouts those of the service hold. */
const FIRST: Rules = { config: {}, timeouts: {}, cooldown: 'task' };

export function LimiterFormPage() {
  const { client } = useSession();
  const [name, setName] = useState('');
  const [kind, setKind] = useState<Kind>(KINDS[0]);
  const [rules, setRules] = useState(FIRST);
  const [error, setError] = useState<string | null>(null);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      const { id } = await client.createLimiter({ name, type: kind.type, ...rules });
      goTo(`#/limiters/${id}`);
    } catch (thrown) {
      setError(messageOf(thrown));
    }
  };
  return (
    <>
      <p class="crumb">
        <a href="#/limiters">Rate limiters</a> / new
      </p>
      <h1>New rate limiter</h1>
      <form class="card form" onSubmit={(event) => void submit(event)}>
        <label>
          Name, by which tasks ask for it
          <input required pattern="[A-Za-z0-9\-]{1,64}" value={name} onInput={({ currentTarget }) => setName(currentTarget.value)} />
        </label>
        <label>
          Kind
          <select
            value={kind.label}
            onChange={({ currentTarget }) => {
              setRules({ ...rules, config: {} });
              setKind(KINDS.find(({ label }) => label === currentTarget.value) ?? KINDS[0]);
            }}
          >
            {KINDS.map(({ label }) => (
              <option key={label}>{label}</option>
            ))}
          </select>
        </label>
        <RuleFields kind={kind} rules={rules} onRules={setRules} />
        <ErrorNote text={error} />
        <button type="submit">Create</button>
      </form>
    </>
  );
}

/** Changes a limiter; `onDone` when that was done. */
export function LimiterEdit({ limiter, onDone }: { limiter: Limiter; onDone(): void }) {
  const { client } = useSession();
  const { id, config, timeouts, cooldown = 'task' } = limiter;
  const [rules, setRules] = useState<Rules>({ config, timeouts, cooldown });
  const [error, setError] = useState<string | null>(null);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      await client.updateLimiter(id, rules);
      onDone();
    } catch (thrown) {
      setError(messageOf(thrown));
    }
  };
  return (
    <section aria-labelledby="edit">
      <h2 id="edit">Change what it allows</h2>
      <form class="card form" onSubmit={(event) => void submit(event)}>
        <RuleFields kind={kindOf(limiter.type, config)} rules={rules} onRules={setRules} />
        <ErrorNote text={error} />
        <button type="submit">Save</button>
      </form>
    </section>
  );
}

interface RuleFieldsProps {
  kind: Kind;
  rules: Rules;
  onRules(rules: Rules): void;
}

function RuleFields({ kind, rules, onRules }: RuleFieldsProps) {
  const { config, timeouts, cooldown } = rules;
  return (
    <>
      <p class="hint">{kind.meaning}</p>
      <div class="row numbers">
        {kind.fields.map(({ name, label, max, optional }) => (
          <NumberField
            key={name}
            label={label}
            max={max}
            required={optional !== true}
            value={config[name]}
            onValue={(value) => onRules({ ...rules, config: withValue(config, name, value) })}
          />
        ))}
      </div>
      <div class="row numbers">
        <NumberField
          label="May wait, seconds"
          max={TIMEOUT_S_MAX}
          value={timeouts.queue_timeout}
          onValue={(value) => onRules({ ...rules, timeouts: withValue(timeouts, 'queue_timeout', value) })}
        />
        <NumberField
          label="May take in all, seconds"
          max={TIMEOUT_S_MAX}
          value={timeouts.validity_timeout}
          onValue={(value) => onRules({ ...rules, timeouts: withValue(timeouts, 'validity_timeout', value) })}
        />
      </div>
      <label>
        <input
          type="checkbox"
          checked={cooldown === 'limiter'}
          onChange={({ currentTarget }) => onRules({ ...rules, cooldown: currentTarget.checked ? 'limiter' : 'task' })}
        />{' '}
        When the target says Retry-After, all tasks wait
      </label>
    </>
  );
}

function withValue<T extends object>(fields: T, name: string, value: number | null): T {
  const { [name as keyof T]: _, ...others } = fields;
  return (value === null ? others : { ...others, [name]: value }) as T;
}

interface NumberFieldProps {
  label: string;
  max: number;
  required?: boolean;
  value: unknown;
  /** null: empty. */
  onValue(value: number | null): void;
}

function NumberField({ label, max, required = false, value, onValue }: NumberFieldProps) {
  return (
    <label>
      {label}
      <input
        type="number"
        placeholder={required ? undefined : 'default'}
        required={required}
        min={1}
        max={max}
        value={typeof value === 'number' ? value : ''}
        onInput={({ currentTarget }) => onValue(currentTarget.value === '' ? null : Number(currentTarget.value))}
      />
    </label>
  );
}
