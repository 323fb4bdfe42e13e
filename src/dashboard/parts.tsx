// The pieces that every view is made of.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { BatchStats, ScheduleExecution } from '../client/index.ts';
import { useAgo } from './clock.ts';
import { count, localTime, time, zonedTime } from './format.ts';

/** Status in words and colour; colour alone would not reach everybody. */
export function Status({ value }: { value: string }) {
  return <span class={`status ${value}`}>{value}</span>;
}

export function When({ at }: { at: string | null | undefined }) {
  if (at === null || at === undefined) return <span class="faint">–</span>;
  return <Ago at={at} />;
}

function Ago({ at }: { at: string }) {
  const text = useAgo(at);
  return (
    <time dateTime={at} title={time(at)}>
      {text}
    </time>
  );
}

/** One of the few things that are said of something under its title: stands in a `dl.facts`. */
export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** A batch's labels; each leads to all batches that have it. */
export function Labels({ labels = {} }: { labels?: Readonly<Record<string, string>> | undefined }) {
  return (
    <span class="labels">
      {Object.entries(labels).map(([key, value]) => (
        <a key={key} class="label" href={`#/batches?label=${encodeURIComponent(`${key}=${value}`)}`}>
          {key}={value}
        </a>
      ))}
    </span>
  );
}

/** How far a batch is: what completed, failed and was cancelled of all its tasks. */
export function Progress({ stats }: { stats: BatchStats }) {
  const share = (part: number): string => `${stats.total === 0 ? 0 : (part / stats.total) * 100}%`;
  const done = stats.total - stats.pending;
  return (
    <div
      class="progress"
      role="progressbar"
      aria-valuemin={0}
      aria-valuemax={stats.total}
      aria-valuenow={done}
      aria-valuetext={`${count(done)} of ${count(stats.total)} tasks finished, ${count(stats.failed)} failed`}
    >
      <span class="completed" style={{ width: share(stats.completed) }} />
      <span class="failed" style={{ width: share(stats.failed) }} />
      <span class="cancelled" style={{ width: share(stats.cancelled) }} />
    </div>
  );
}

export function ErrorNote({ text }: { text: string | null }) {
  return text === null ? null : (
    <p class="error" role="alert">
      {text}
    </p>
  );
}

/** Instants to come, on this reader's clocks and on those of a zone. */
export function Executions({ timezone, executions }: { timezone: string; executions: readonly ScheduleExecution[] }) {
  if (executions.length === 0) return <p class="faint">It does not run any more.</p>;
  return (
    <div class="scroll">
      <table class="times">
        <thead>
          <tr>
            <th scope="col">Here</th>
            <th scope="col">In {timezone}</th>
            <th scope="col" class="number spare">
              From now
            </th>
          </tr>
        </thead>
        <tbody>
          {executions.map(({ scheduled_for, local_time }) => (
            <tr key={scheduled_for}>
              <td>{localTime(scheduled_for)}</td>
              <td>{zonedTime(local_time)}</td>
              <td class="number faint spare">
                <When at={scheduled_for} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** What stands where there is nothing yet: what it would be, and what to do first. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

export function Pager({
  total,
  limit,
  offset,
  onOffset,
}: {
  total: number;
  limit: number;
  offset: number;
  onOffset(offset: number): void;
}) {
  const last = Math.max(0, Math.ceil(total / limit) - 1) * limit;
  // What was on this page may be gone.
  useEffect(() => {
    if (offset > last) onOffset(last);
  }, [offset, last]);
  if (total <= limit) return null;
  // A button that is disabled loses the focus.
  const to = (next: number): void => onOffset(Math.min(last, Math.max(0, next)));
  return (
    <div class="pager">
      <button type="button" class="quiet" aria-disabled={offset === 0} onClick={() => to(offset - limit)}>
        ← Back
      </button>
      <span class="faint">
        {count(offset + 1)}–{count(Math.min(total, offset + limit))} of {count(total)}
      </span>
      <button type="button" class="quiet" aria-disabled={offset >= last} onClick={() => to(offset + limit)}>
        Next →
      </button>
    </div>
  );
}

interface ActionProps {
  label: string;
  /** What is asked before it is done; none: it is done at once. */
  question?: string;
  disabled?: boolean;
  run(): Promise<unknown>;
  onDone?(): void;
  onError(error: unknown): void;
}

/** A button for something that changes things. */
export function Action({ label, question, disabled = false, run, onDone, onError }: ActionProps) {
  const [busy, setBusy] = useState(false);
  const act = async (): Promise<void> => {
    if (busy || (question !== undefined && !confirm(question))) return;
    setBusy(true);
    try {
      await run();
      onDone?.();
    } catch (error) {
      onError(error);
    }
    setBusy(false);
  };
  return (
    <button type="button" disabled={disabled} aria-busy={busy} onClick={() => void act()}>
      {busy ? '…' : label}
    </button>
  );
}
