// What a batch told to whom: where its notifications go, and how each delivery stands.
import { useState } from 'preact/hooks';
import type { Batch, NotificationLog } from '../../client/index.ts';
import { useSession } from '../context.ts';
import { isLive } from '../follow.ts';
import { count } from '../format.ts';
import { useLoad } from '../load.ts';
import { Action, ErrorNote, Pager, Status, When } from '../parts.tsx';
import { messageOf } from '../session.ts';
import { Answer } from './batch-tasks.tsx';

type Delivery = NotificationLog['notifications'][number];
type DeliveryStatus = Delivery['status'];

const STATUSES: readonly (DeliveryStatus | '')[] = ['', 'pending', 'delivering', 'delivered', 'failed'];
const LIMIT = 25;
/** No stream tells of deliveries. */
const EVERY_MS = 5_000;

export function Notifications({ batch, version }: { batch: Batch; version: string }) {
  const targets = Object.entries(batch.notifications);
  return (
    <section aria-labelledby="notifications">
      {targets.length === 0 ? (
        <>
          <h2 id="notifications">Notifications</h2>
          <p class="faint">Nobody asked to be told of this batch. A batch names who is when it is created, under “notifications”.</p>
        </>
      ) : (
        <Log batch={batch} version={version} />
      )}
    </section>
  );
}

function Log({ batch, version }: { batch: Batch; version: string }) {
  const { client } = useSession();
  const [status, setStatus] = useState<DeliveryStatus | ''>('');
  const [offset, setOffset] = useState(0);
  const [failure, setFailure] = useState<string | null>(null);
  const [moving, setMoving] = useState(true);
  const query = { limit: LIMIT, offset, ...(status === '' ? {} : { status }) };
  const name = `${batch.id} ${JSON.stringify(query)}`;
  const { data, error, again } = useLoad<NotificationLog>(
    name,
    () => client.listNotifications(batch.id, query),
    moving ? EVERY_MS : null,
    version,
  );
  const moves =
    isLive(batch.status) || (data?.notifications.some((one) => one.status === 'pending' || one.status === 'delivering') ?? true);
  if (moves !== moving) setMoving(moves);
  const done = (): void => {
    setFailure(null);
    again();
  };
  return (
    <>
      <div class="title">
        <h2 id="notifications">Notifications {data !== null && <span class="faint">{count(data.total)}</span>}</h2>
        <label>
          Delivery
          <select
            value={status}
            onChange={({ currentTarget }) => {
              setOffset(0);
              setStatus(currentTarget.value as DeliveryStatus | '');
            }}
          >
            {STATUSES.map((value) => (
              <option key={value} value={value}>
                {value === '' ? 'all' : value}
              </option>
            ))}
          </select>
        </label>
      </div>
      <dl class="facts">
        {Object.entries(batch.notifications).map(([event, webhook]) => (
          <div key={event}>
            <dt>{event}</dt>
            <dd>
              <span class="method">{webhook.method ?? 'POST'}</span> {webhook.url}
            </dd>
          </div>
        ))}
      </dl>
      <ErrorNote text={failure ?? error} />
      {data?.notifications.length === 0 && <p class="faint">{status === '' ? 'Nothing was to be told yet.' : 'None is like this.'}</p>}
      {data !== null && data.notifications.length > 0 && (
        <div class="scroll">
          <table>
            <thead>
              <tr>
                <th scope="col">Event</th>
                <th scope="col">Delivery</th>
                <th scope="col" class="number">
                  Tries
                </th>
                <th scope="col">Last answer</th>
                <th scope="col">Happened</th>
                <th scope="col">Delivered</th>
                <th scope="col">
                  <span class="hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {data.notifications.map((delivery) => (
                <tr key={delivery.id}>
                  <td title={delivery.id}>{delivery.event}</td>
                  <td>
                    <Status value={delivery.status} />
                  </td>
                  <td class="number">{delivery.attempts}</td>
                  <td>
                    <Answer result={delivery.result} />
                  </td>
                  <td>
                    <When at={delivery.created_at} />
                  </td>
                  <td>
                    <Delivered delivery={delivery} />
                  </td>
                  <td class="actions">
                    {(delivery.status === 'delivered' || delivery.status === 'failed') && (
                      <Action
                        label="Redeliver"
                        run={() => client.redeliverNotification(batch.id, delivery.id)}
                        onDone={done}
                        onError={(thrown) => setFailure(messageOf(thrown))}
                      />
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {data !== null && <Pager total={data.total} limit={LIMIT} offset={offset} onOffset={setOffset} />}
    </>
  );
}

function Delivered({ delivery }: { delivery: Delivery }) {
  if (delivery.next_attempt_at === undefined) return <When at={delivery.delivered_at} />;
  return (
    <span class="faint">
      again <When at={delivery.next_attempt_at} />
    </span>
  );
}
