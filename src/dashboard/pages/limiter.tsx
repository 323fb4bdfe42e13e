// One rate limiter: how much of it is used, what waits, and what can be done about it.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Limiter, LimiterUsage } from '../../client/index.ts';
import { Chart } from '../chart.tsx';
import { useSession } from '../context.ts';
import { useEditing } from '../form.tsx';
import { count } from '../format.ts';
import { configText, kindOf } from '../limiter-kinds.ts';
import { useLoad } from '../load.ts';
import { Action, ErrorNote, Fact, Status, When } from '../parts.tsx';
import { goTo } from '../route.ts';
import { messageOf } from '../session.ts';
import { LimiterEdit } from './limiter-form.tsx';

/** No stream tells of limiters. */
const USAGE_MS = 2_000;
/** Somebody else may change or pause it. */
const LIMITER_MS = 10_000;
/** Five minutes. */
const READINGS_MAX = 150;
/** Below it a chart's scale does not shrink, so that an idle hour is a line at the bottom. */
const TOP_MIN = 10;

export function LimiterPage({ id }: { id: string }) {
  const { client } = useSession();
  const { data: limiter, error, again } = useLoad<Limiter>(id, () => client.getLimiter(id), LIMITER_MS);
  const { data: usage } = useLoad<LimiterUsage>(`${id} usage`, () => client.getLimiterUsage(id), USAGE_MS);
  const { editing, button, close } = useEditing();
  if (limiter === null) return error === null ? <p class="faint">Loading…</p> : <ErrorNote text={error} />;
  return (
    <>
      <p class="crumb">
        <a href="#/limiters">Rate limiters</a> / {limiter.name}
      </p>
      <Title limiter={limiter} edit={button} onChange={again} />
      <ErrorNote text={error} />
      {editing && <LimiterEdit limiter={limiter} onChange={again} onClose={close} />}
      <Facts limiter={limiter} />
      {usage !== null && <Usage usage={usage} slots={limiter.type === 'concurrent'} />}
    </>
  );
}

function Title({ limiter, edit, onChange }: { limiter: Limiter; edit: ComponentChildren; onChange(): void }) {
  const { client } = useSession();
  const { id, name, paused = false } = limiter;
  const [failure, setFailure] = useState<string | null>(null);
  const onDone = (): void => {
    setFailure(null);
    onChange();
  };
  const onError = (thrown: unknown): void => setFailure(messageOf(thrown));
  return (
    <>
      <div class="title">
        <h1>{name}</h1>
        <Status value={paused ? 'paused' : 'active'} />
        <div class="actions">
          {edit}
          {paused ? (
            <Action label="Resume" run={() => client.resumeLimiter(id)} onDone={onDone} onError={onError} />
          ) : (
            <Action label="Pause" run={() => client.pauseLimiter(id, {})} onDone={onDone} onError={onError} />
          )}
          <Action
            label="Reset"
            question="Forget what was used? As much may start again at once."
            run={() => client.resetLimiter(id)}
            onDone={onDone}
            onError={onError}
          />
          <Action
            label="Delete"
            question="Delete it? What waits starts at once, without a limit. This cannot be undone."
            run={() => client.deleteLimiter(id)}
            onDone={() => goTo('#/limiters')}
            onError={onError}
          />
        </div>
      </div>
      <ErrorNote text={failure} />
    </>
  );
}

function Facts({ limiter }: { limiter: Limiter }) {
  const { type, config, description, paused_until, created_at, updated_at } = limiter;
  return (
    <dl class="facts">
      <Fact name={kindOf(type, config).label}>{configText(type, config)}</Fact>
      {description !== undefined && <Fact name="Description">{description}</Fact>}
      {paused_until !== undefined && (
        <Fact name="Goes on">
          <When at={paused_until} />
        </Fact>
      )}
      <Fact name="Id">
        <code>{limiter.id}</code>
      </Fact>
      <Fact name="Created">
        <When at={created_at} />
      </Fact>
      <Fact name="Changed">
        <When at={updated_at} />
      </Fact>
    </dl>
  );
}

/** `slots`: tasks take one each while they run. */
function Usage({ usage, slots }: { usage: LimiterUsage; slots: boolean }) {
  const readings = useReadings(usage);
  const hour = usage.history.map(({ at }) => new Date(at).getTime() / 1000);
  const days = usage.days.map(({ date }) => new Date(`${date}T00:00:00`).getTime() / 1000);
  return (
    <>
      <dl class="tiles">
        <Tile name="Waiting" value={usage.queued} />
        {slots && <Tile name="Running" value={usage.running} />}
        <Tile name="Free now" value={usage.available} />
        <div>
          <dt>Next free</dt>
          <dd class="long">{usage.next_available_at === null ? <span class="faint">–</span> : <When at={usage.next_available_at} />}</dd>
        </div>
        <Tile name="Started, last minute" value={usage.granted_last_minute} />
        <Tile name="Held back, last minute" value={usage.throttled_last_minute} />
      </dl>
      <div class="charts">
        <Chart
          title="Now"
          series={[
            { label: 'waiting', color: '--amber' },
            { label: 'free', color: '--green' },
          ]}
          data={[readings.map(({ at_s }) => at_s), readings.map(({ queued }) => queued), readings.map(({ available }) => available)]}
          format={count}
          top_min={TOP_MIN}
        />
        <Chart
          title="The last hour, by the minute"
          series={[
            { label: 'started', color: '--green' },
            { label: 'waiting at most', color: '--amber' },
          ]}
          data={[hour, usage.history.map(({ granted }) => granted), usage.history.map(({ queued_max }) => queued_max)]}
          format={count}
          top_min={TOP_MIN}
          clock="{HH}:{mm}"
        />
        <Chart
          title="30 days"
          series={[
            { label: 'started', color: '--green' },
            { label: 'held back', color: '--amber' },
            { label: 'waited too long', color: '--red' },
          ]}
          data={[
            days,
            usage.days.map(({ granted }) => granted),
            usage.days.map(({ throttled }) => throttled),
            usage.days.map(({ expired }) => expired),
          ]}
          format={count}
          top_min={TOP_MIN}
          clock="{D} {MMM}"
        />
      </div>
    </>
  );
}

function Tile({ name, value }: { name: string; value: number | null }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value === null ? '–' : count(value)}</dd>
    </div>
  );
}

interface Reading {
  at_s: number;
  queued: number;
  available: number | null;
}

/** What was read since the page was opened. */
function useReadings(usage: LimiterUsage): readonly Reading[] {
  const [readings, setReadings] = useState<readonly Reading[]>([]);
  useEffect(() => {
    const { queued, available } = usage;
    setReadings((before) => [...before.slice(1 - READINGS_MAX), { at_s: Date.now() / 1000, queued, available }]);
  }, [usage]);
  return readings;
}
