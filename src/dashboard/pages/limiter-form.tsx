// What a rate limiter allows, as fields: for a new one, and for one that is changed.
import { useState } from 'preact/hooks';
import type { Limiter, LimiterTimeouts } from '../../client/index.ts';
import { useSession } from '../context.ts';
import { Editing, type Faults, Field, Form, same, useEdit } from '../form.tsx';
import { KINDS, type Kind, kindOf } from '../limiter-kinds.ts';
import { goTo } from '../route.ts';

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
  const send = async (): Promise<null> => {
    const { id } = await client.createLimiter({ name, type: kind.type, ...rules });
    goTo(`#/limiters/${id}`);
    return null;
  };
  return (
    <>
      <p class="crumb">
        <a href="#/limiters">Rate limiters</a> / new
      </p>
      <h1>New rate limiter</h1>
      <Form fields={['name', ...namesOf(kind)]} label="Create" send={send}>
        {(faults) => (
          <>
            <Field name="name" label="Name, by which tasks ask for it" faults={faults}>
              {(tied) => (
                <input
                  {...tied}
                  required
                  pattern="[A-Za-z0-9\-]{1,64}"
                  value={name}
                  onInput={({ currentTarget }) => setName(currentTarget.value)}
                />
              )}
            </Field>
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
            <RuleFields kind={kind} rules={rules} faults={faults} onRules={setRules} />
          </>
        )}
      </Form>
    </>
  );
}

interface LimiterEditProps {
  /** As it is now. */
  limiter: Limiter;
  /** Asks for it again. */
  onChange(): void;
  onClose(): void;
}

/** Changes a limiter; what was not touched is not sent, so that it stays as somebody else may have made it meanwhile. */
export function LimiterEdit({ limiter, onChange, onClose }: LimiterEditProps) {
  const { client } = useSession();
  const { id, type } = limiter;
  const ask = async (): Promise<Rules> => rulesOf(await client.getLimiter(id));
  const { base, fields: rules, setFields: setRules, overtaken, reload, save } = useEdit(rulesOf(limiter), { ask, onChange, onClose });
  const kind = kindOf(type, base.config);
  const send = (): Promise<Faults | null> => {
    const changed = (['config', 'timeouts', 'cooldown'] as const).filter((name) => !same(base[name], rules[name]));
    const patch = Object.fromEntries(changed.map((name) => [name, rules[name]]));
    return save(changed.length === 0 ? null : () => client.updateLimiter(id, patch));
  };
  return (
    <Editing title="Change what it allows" overtaken={overtaken} onReload={reload}>
      <Form fields={namesOf(kind)} label="Save" send={send} onCancel={onClose}>
        {(faults) => <RuleFields kind={kind} rules={rules} faults={faults} onRules={setRules} />}
      </Form>
    </Editing>
  );
}

function rulesOf({ config, timeouts, cooldown = 'task' }: Limiter): Rules {
  return { config, timeouts, cooldown };
}

/** Those that show faults. */
function namesOf({ fields }: Kind): readonly string[] {
  return [...fields.map(({ name }) => `config/${name}`), 'timeouts/queue_timeout', 'timeouts/validity_timeout'];
}

interface RuleFieldsProps {
  kind: Kind;
  rules: Rules;
  faults: Faults;
  onRules(rules: Rules): void;
}

function RuleFields({ kind, rules, faults, onRules }: RuleFieldsProps) {
  const { config, timeouts, cooldown } = rules;
  return (
    <>
      <p class="hint">{kind.meaning}</p>
      <div class="row numbers">
        {kind.fields.map(({ name, label, max, optional }) => (
          <NumberField
            key={name}
            name={`config/${name}`}
            faults={faults}
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
          name="timeouts/queue_timeout"
          faults={faults}
          label="May wait, seconds"
          max={TIMEOUT_S_MAX}
          value={timeouts.queue_timeout}
          onValue={(value) => onRules({ ...rules, timeouts: withValue(timeouts, 'queue_timeout', value) })}
        />
        <NumberField
          name="timeouts/validity_timeout"
          faults={faults}
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
  name: string;
  faults: Faults;
  label: string;
  max: number;
  required?: boolean;
  value: unknown;
  /** null: empty. */
  onValue(value: number | null): void;
}

function NumberField({ name, faults, label, max, required = false, value, onValue }: NumberFieldProps) {
  return (
    <Field name={name} label={label} faults={faults}>
      {(tied) => (
        <input
          {...tied}
          type="number"
          placeholder={required ? undefined : 'default'}
          required={required}
          min={1}
          max={max}
          value={typeof value === 'number' ? value : ''}
          onInput={({ currentTarget }) => onValue(currentTarget.value === '' ? null : Number(currentTarget.value))}
        />
      )}
    </Field>
  );
}
