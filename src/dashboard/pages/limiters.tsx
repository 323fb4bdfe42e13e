// Rate limiters: what each allows, and what waits for it.
import { useState } from 'preact/hooks';
import type { LimiterList, LimiterUsage } from '../../client/index.ts';
import { useSession } from '../context.ts';
import { count } from '../format.ts';
import { configText, kindOf } from '../limiter-kinds.ts';
import { useLoad } from '../load.ts';
import { Empty, ErrorNote, Pager, When } from '../parts.tsx';

type Item = LimiterList['rate_limiters'][number];

const LIMIT = 25;
const LIST_MS = 10_000;

export function LimitersPage() {
  const { client } = useSession();
  const [offset, setOffset] = useState(0);
  const { data, error } = useLoad<LimiterList>(`limiters ${offset}`, () => client.listLimiters({ limit: LIMIT, offset }), LIST_MS);
  return (
    <>
      <div class="title">
        <h1>Rate limiters {data !== null && <span class="faint">{count(data.total)}</span>}</h1>
        <a class="button" href="#/limiters/new">
          New limiter
        </a>
      </div>
      <ErrorNote text={error} />
      {data?.total === 0 && (
        <Empty title="No rate limiters yet">
          <p>A limiter holds tasks back until a target may be called again: so many at once, so many a second, so many points.</p>
          <p>
            <a class="button" href="#/limiters/new">
              Create the first one
            </a>
          </p>
        </Empty>
      )}
      {data !== null && data.rate_limiters.length > 0 && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col" class="spare">
                  Kind
                </th>
                <th scope="col">Allows</th>
                <th scope="col" class="number">
                  Waiting
                </th>
                <th scope="col" class="number">
                  Started, last minute
                </th>
                <th scope="col">Created</th>
              </tr>
            </thead>
            <tbody>
              {data.rate_limiters.map((limiter) => (
                <Row key={limiter.id} limiter={limiter} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {data !== null && <Pager total={data.total} limit={LIMIT} offset={offset} onOffset={setOffset} />}
    </>
  );
}

function Row({ limiter }: { limiter: Item }) {
  const { client } = useSession();
  const { id, name, type, config, created_at } = limiter;
  const { data: usage } = useLoad<LimiterUsage>(`${id} usage`, () => client.getLimiterUsage(id), LIST_MS);
  return (
    <tr>
      <td class="name">
        <a href={`#/limiters/${id}`}>{name}</a>
      </td>
      <td class="spare">{kindOf(type, config).label}</td>
      <td>{configText(type, config)}</td>
      <td class="number">{usage === null ? '–' : count(usage.queued)}</td>
      <td class="number">{usage === null ? '–' : count(usage.granted_last_minute)}</td>
      <td>
        <When at={created_at} />
      </td>
    </tr>
  );
}
