// Section 8 of the contract: progress streams, over WebSockets and as Server-Sent Events.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import type { StreamProgress, StreamTicket } from '../../../src/schema/types.gen.ts';
import { until } from '../../helpers/redis.ts';
import { type Frame, isProgress, isTask, openEvents, openSocket, type Reading, Refused } from '../../helpers/stream.ts';
import { freshPath, inSeconds, ONCE, type Stage, tasksFor } from '../stage.ts';

const ACME = 'acme-token-of-the-tests';
const KINDS = { stream: openSocket, events: openEvents };

export function streams({ client, engine, receiver, scoped, nobody }: Stage): void {
  const { acme } = client;
  let conform: Awaited<ReturnType<typeof conformity>>;
  before(async () => {
    conform = await conformity(engine.url);
  });
  const open = (kind: keyof typeof KINDS, id: string, query = '', token: string | null = ACME): Promise<Reading> =>
    KINDS[kind](engine.url, `/v1/batches/${id}/${kind}${query}`, token);
  const refused = async (...args: Parameters<typeof open>): Promise<Refused> =>
    open(...args).then(
      () => assert.fail('it was opened'),
      (error: unknown) => (error instanceof Refused ? error : Promise.reject(error)),
    );
  const ticketFor = async (id: string): Promise<StreamTicket> => {
    const reply = await acme.ask('POST', `/v1/batches/${id}/stream-tickets`);
    assert.equal(reply.status, 201, reply.text);
    return reply.json as StreamTicket;
  };
  /** A batch that waits until its path is released. */
  const held = async (count: number, more: object = {}): Promise<{ id: string; path: string }> => {
    const path = freshPath();
    const { id } = await acme.create({ tasks: tasksFor(receiver.at(path, { hold: true }), count, more) });
    return { id, path };
  };

  for (const kind of ['stream', 'events'] as const) {
    test(`/${kind}: a snapshot, progress that never goes back, then finished as GET has it`, async () => {
      const { id, path } = await held(300);
      const reading = await open(kind, id);
      const first = await reading.until(() => true);
      assert.equal(first.type, 'snapshot');
      receiver.release(path);
      const code = await reading.ended;
      assert.equal(code, kind === 'stream' ? 1000 : 0);
      const last = reading.frames.at(-1);
      assert.ok(last?.type === 'finished');
      const batch = await acme.batch(id);
      assert.deepEqual(
        [last.batch_id, last.status, last.stats, last.completion_rate, last.timestamp],
        [batch.id, batch.status, batch.stats, batch.completion_rate, batch.updated_at],
      );
      neverBack(reading.frames);
      inOrder(reading.frames);
      conform(reading.frames);
      assert.deepEqual(reading.frames.filter(isTask), []);
    });

    test(`/${kind} with tasks=true tells of each task that ends, with its result`, async () => {
      const path = freshPath();
      const failing = freshPath();
      receiver.at(failing, { hold: true, status: 500 });
      const tasks = [...tasksFor(receiver.at(path, { hold: true }), 50), ...tasksFor(receiver.url + failing, 3, ONCE)];
      const { id } = await acme.create({ tasks });
      const reading = await open(kind, id, '?tasks=true');
      await reading.until(() => true);
      receiver.release(path);
      receiver.release(failing);
      await reading.ended;
      const told = new Map(reading.frames.filter(isTask).map(({ task }) => [task.id, task]));
      assert.equal(reading.frames.filter(isTask).length, 53);
      for (const task of await acme.allTasks(id)) {
        const seen = told.get(task.id);
        const { response_excerpt: _excerpt, ...result } = task.result ?? assert.fail();
        assert.deepEqual([seen?.status, seen?.attempts, seen?.result], [task.status, task.attempts, result]);
        if (task.completed_at !== undefined) assert.equal(seen?.completed_at, task.completed_at);
      }
      inOrder(reading.frames);
      neverBack(reading.frames);
      conform(reading.frames);
    });

    for (const end of ['cancelled', 'expired'] as const) {
      test(`/${kind} with tasks=true tells of each task that ends with its batch, ${end}`, async () => {
        const path = freshPath();
        const late = tasksFor(receiver.url + path, 30).map((one) => ({ ...one, execute_after: '2100-01-01T00:00:00Z' }));
        const tasks = [...tasksFor(receiver.at(path, { hold: true }), 2), ...late];
        // So late that the stream is open by then on a machine that is busy, too: what ended before is not told.
        const options = end === 'expired' ? { options: { expiration: 5 / 3_600 } } : {};
        const { id } = await acme.create({ tasks, ...options });
        const reading = await open(kind, id, '?tasks=true');
        await reading.until(() => true);
        await until(() => receiver.to(path).length === 2, 5_000, 'those that run');
        if (end === 'cancelled') await acme.ask('POST', `/v1/batches/${id}/cancel`);
        await reading.until((frame) => isTask(frame));
        receiver.release(path);
        await reading.ended;
        const told = new Map(reading.frames.filter(isTask).map(({ task }) => [task.id, task]));
        assert.deepEqual([told.size, reading.frames.filter(isTask).length], [32, 32]);
        for (const task of await acme.allTasks(id)) {
          const seen = told.get(task.id);
          assert.deepEqual([seen?.status, seen?.attempts, seen?.result?.error], [task.status, task.attempts, task.result?.error]);
        }
        assert.equal([...told.values()].filter(({ result }) => result?.error?.code === 'batch_expired').length, end === 'expired' ? 30 : 0);
        inOrder(reading.frames);
        conform(reading.frames);
      });
    }

    test(`/${kind} of a batch that has ended: snapshot, finished, closed`, async () => {
      const { id } = await acme.create({ tasks: tasksFor(receiver.at(freshPath()), 2) });
      await acme.ended(id, 'completed');
      const reading = await open(kind, id);
      await reading.ended;
      assert.deepEqual(
        reading.frames.map(({ type, seq }) => [type, seq]),
        [
          ['snapshot', 0],
          ['finished', 1],
        ],
      );
    });

    test(`/${kind} is refused before it opens: 401, 404, 400`, async () => {
      const { id } = await acme.create({ tasks: tasksFor(receiver.at(freshPath()), 1, { execute_after: inSeconds(60) }) });
      const cases: [Promise<Refused>, number, string][] = [
        [refused(kind, id, '', null), 401, 'unauthorized'],
        [refused(kind, id, '', 'slk_nonsense'), 401, 'unauthorized'],
        [refused(kind, id, '', 'rival-token-of-the-tests'), 404, 'batch_not_found'],
        [refused(kind, `${id.slice(0, -1)}_`), 404, 'batch_not_found'],
        [refused(kind, id, '?tasks=maybe'), 400, 'validation_error'],
        [refused(kind, id, '?task=true'), 400, 'validation_error'],
        [refused(kind, id, '?tasks=maybe', 'rival-token-of-the-tests'), 404, 'batch_not_found'],
        [refused(kind, id, '?ticket=stk_nonsense', null), 401, 'unauthorized'],
        [refused(kind, `${id.slice(0, -1)}_`, `?ticket=stk_${'x'.repeat(43)}`, null), 401, 'unauthorized'],
        [refused(kind, id, `?ticket=stk_${'x'.repeat(43)}`, null), 401, 'unauthorized'],
      ];
      for (const [refusal, status, code] of cases) {
        const { status: was, body, headers } = await refusal;
        assert.deepEqual([was, body.error.code], [status, code]);
        assert.ok(headers['x-request-id'] !== undefined);
        if (status === 401) assert.equal(headers['www-authenticate'], 'Bearer');
      }
    });

    test(`/${kind} opens with a ticket, once, and only for its batch`, async () => {
      const [one, other] = await Promise.all([held(1), held(1)]);
      const { ticket, expires_at } = await ticketFor(one.id);
      const left_ms = Date.parse(expires_at) - Date.now();
      assert.ok(left_ms > 25_000 && left_ms < 31_000, `${left_ms}`);
      assert.equal((await refused(kind, other.id, `?ticket=${ticket}`, null)).status, 401);
      assert.equal((await refused(kind, one.id, `?ticket=${ticket}&tasks=maybe`, null)).status, 400);
      const reading = await open(kind, one.id, `?ticket=${ticket}`, null);
      assert.equal((await reading.until(() => true)).type, 'snapshot');
      assert.equal((await refused(kind, one.id, `?ticket=${ticket}`, null)).status, 401);
      for (const { path } of [one, other]) receiver.release(path);
      await reading.ended;
    });
  }

  test('an event stream ends as a whole answer, also for a client that keeps its connections', async () => {
    const { id } = await acme.create({ tasks: tasksFor(receiver.at(freshPath()), 1) });
    await acme.ended(id, 'completed');
    const response = await fetch(`${engine.url}/v1/batches/${id}/events`, { headers: { authorization: `Bearer ${ACME}` } });
    const events = (await response.text()).split('\n\n').filter((event) => event.startsWith('data: '));
    assert.deepEqual(
      events.map((event) => (JSON.parse(event.slice('data: '.length)) as Frame).type),
      ['snapshot', 'finished'],
    );
  });

  test('a ticket may be made with scope read, for a batch of one’s own', async () => {
    const { id, path } = await held(1);
    const reply = await scoped.read.ask('POST', `/v1/batches/${id}/stream-tickets`);
    assert.equal(reply.status, 201);
    await client.rival.refused(404, 'batch_not_found', 'POST', `/v1/batches/${id}/stream-tickets`);
    await nobody.refused(401, 'unauthorized', 'POST', `/v1/batches/${id}/stream-tickets`);
    const [first, again] = await Promise.all(
      [1, 2].map(() => acme.ask('POST', `/v1/batches/${id}/stream-tickets`, { headers: { 'idempotency-key': `ticket-${id}` } })),
    );
    assert.ok(first !== undefined && again !== undefined);
    assert.notEqual((first.json as StreamTicket).ticket, (again.json as StreamTicket).ticket);
    receiver.release(path);
  });

  test('GET of a stream that asks for no upgrade is 400, HEAD of events opens nothing', async () => {
    const { id, path } = await held(1);
    const refusal = await acme.refused(400, 'validation_error', 'GET', `/v1/batches/${id}/stream`);
    assert.deepEqual(
      (refusal.details['errors'] as { path: string }[]).map((fault) => fault.path),
      ['Upgrade'],
    );
    const handshake = { connection: 'Upgrade', 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==' };
    for (const [upgrade, version] of [
      ['h2c', '13'],
      ['websocket', '8'],
    ] as const) {
      const headers = { ...handshake, upgrade, 'sec-websocket-version': version };
      await acme.refused(400, 'validation_error', 'GET', `/v1/batches/${id}/stream`, { headers });
    }
    for (let i = 0; i < 11; i++) {
      const reply = await acme.ask('HEAD', `/v1/batches/${id}/events`);
      assert.deepEqual([reply.status, reply.headers['content-type']], [200, 'text/event-stream']);
    }
    const { status } = await acme.ask('POST', `/v1/batches/${id}/stream`);
    assert.equal(status, 405);
    receiver.release(path);
  });

  test('ten streams of a batch, of both kinds; the eleventh is 429, and a place that was left can be taken', async () => {
    const { id, path } = await held(1);
    const readings = await Promise.all(Array.from({ length: 10 }, (_, i) => open(i % 2 === 0 ? 'stream' : 'events', id)));
    for (const kind of ['stream', 'events'] as const) {
      const { status, body, headers } = await refused(kind, id);
      assert.deepEqual([status, body.error.code, body.error.details], [429, 'rate_limited', { policy: 'streams', limit: 10 }]);
      assert.ok(Number(headers['retry-after']) >= 1);
    }
    assert.equal((await refused('stream', id, '?tasks=maybe')).status, 429);
    const another = await held(1);
    const elsewhere = await open('stream', another.id);
    readings[0]?.close();
    let eleventh: Reading | null = null;
    const opened = async (): Promise<boolean> => {
      eleventh = await open('stream', id).catch(() => null);
      return eleventh !== null;
    };
    await until(opened, 5_000, 'the place to be free');
    for (const one of [path, another.path]) receiver.release(one);
    assert.deepEqual(await Promise.all([eleventh, elsewhere].map((reading: Reading | null) => reading?.ended)), [1000, 1000]);
  });

  test('progress shows a cancel, an add and a task that is cancelled alone', async () => {
    const later = { execute_after: inSeconds(600) };
    const { id } = await acme.create({ tasks: tasksFor(receiver.at(freshPath()), 5, later) });
    const reading = await open('stream', id, '?tasks=true');
    await reading.until(() => true);
    await acme.add(id, { tasks: tasksFor(receiver.url, 2, later) });
    await reading.until((frame) => isProgress(frame) && frame.stats.total === 7);
    const [task] = (await acme.tasks(id, '?limit=1')).tasks;
    assert.ok(task !== undefined);
    await acme.ask('POST', `/v1/tasks/${task.id}/cancel`);
    await reading.until((frame) => isTask(frame) && frame.task.id === task.id && frame.task.status === 'cancelled');
    await acme.cancel(id);
    assert.equal(await reading.ended, 1000);
    const last = reading.frames.at(-1);
    assert.ok(last?.type === 'finished');
    assert.deepEqual([last.status, last.stats.cancelled, last.stats.pending], ['cancelled', 7, 0]);
    assert.equal(new Set(reading.frames.filter(isTask).map(({ task }) => task.id)).size, 7);
    assert.equal(reading.frames.filter(isTask).length, 7);
    inOrder(reading.frames);
  });

  test('at most 20 messages of progress in any second', async () => {
    const path = freshPath();
    const { id } = await acme.create({ tasks: tasksFor(receiver.at(path, { delay_ms: 5 }), 400, {}), options: { hold: true } });
    const reading = await open('stream', id);
    for (let i = 0; i < 60; i++) await acme.add(id, { tasks: tasksFor(receiver.url + path, 20) });
    await acme.release(id);
    assert.equal(await reading.ended, 1000);
    const times = reading.came_ms.filter((_, i) => reading.frames[i]?.type === 'progress');
    for (const [i, from_ms] of times.entries()) {
      const within = times.slice(i).filter((ms) => ms < from_ms + 1_000).length;
      // What was sent while everything stood still comes in at once, behind a gap: so much longer ago it may have been sent. A gap that comes later adds nothing.
      const stall_ms = Math.max(50, longestGap(times.filter((ms) => ms > from_ms - 1_000 && ms <= from_ms)));
      assert.ok(within <= 21 + stall_ms / 50, `${within} within a second, the longest gap ${stall_ms} ms`);
    }
    assert.ok(times.length >= 2);
  });

  test('a client that sends much, or often, is closed with 1008', async () => {
    const { id, path } = await held(1);
    const [large, many, quiet] = await Promise.all([open('stream', id), open('stream', id), open('stream', id)]);
    large.send('x'.repeat(4_097));
    for (let i = 0; i < 11; i++) many.send('x');
    quiet.send('x'.repeat(4_096));
    assert.deepEqual(await Promise.all([large.ended, many.ended]), [1008, 1008]);
    assert.equal(quiet.code, null);
    receiver.release(path);
    assert.equal(await quiet.ended, 1000);
  });
}

function longestGap(times: readonly number[]): number {
  return Math.max(0, ...times.slice(1).map((ms, i) => ms - (times[i] ?? ms)));
}

function neverBack(frames: readonly Frame[]): void {
  let before: StreamProgress['stats'] | null = null;
  for (const frame of frames) {
    if (isTask(frame)) continue;
    const { stats } = frame.type === 'snapshot' ? frame.batch : frame;
    assert.equal(stats.total, stats.pending + stats.completed + stats.failed + stats.cancelled);
    for (const name of ['total', 'completed', 'failed', 'cancelled'] as const) {
      assert.ok(stats[name] >= (before?.[name] ?? 0), `${name} went from ${before?.[name]} to ${stats[name]}`);
    }
    before = stats;
  }
}

/** Numbered without a gap. */
function inOrder(frames: readonly Frame[]): void {
  const first = frames[0]?.seq ?? 0;
  assert.deepEqual(
    frames.map(({ seq }) => seq),
    frames.map((_, i) => first + i),
  );
}

const SCHEMA = { snapshot: 'StreamSnapshot', progress: 'StreamProgress', finished: 'StreamProgress', task: 'StreamTask' };

/**
 * Frames are what the engine's own document says: a check of them, made once. To compile it takes a good part of a second, in which the receiver, which is of this process,
 * takes no call.
 */
async function conformity(url: string): Promise<(frames: readonly Frame[]) => void> {
  const { components } = (await (await fetch(`${url}/openapi.json`)).json()) as { components: object };
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  ajv.addSchema({ $id: 'api', ...JSON.parse(JSON.stringify({ components }).replaceAll('#/components/', 'api#/components/')) });
  const validators = new Map(Object.entries(SCHEMA).map(([type, name]) => [type, ajv.getSchema(`api#/components/schemas/${name}`)]));
  return (frames) => {
    for (const frame of frames) {
      const validate = validators.get(frame.type) ?? assert.fail(frame.type);
      assert.ok(validate(frame), `${JSON.stringify(frame)}: ${JSON.stringify(validate.errors)}`);
    }
  };
}
