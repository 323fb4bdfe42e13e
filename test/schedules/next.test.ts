// When expressions fire: a table, a second implementation, and an enumeration of local times minute by minute.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Cron } from 'croner';
import fc from 'fast-check';
import { type CronFields, parseCron } from '../../src/schedules/expression.ts';
import { count, next, previous } from '../../src/schedules/next.ts';
import { leadOf, localTime, storedTiming, type Timing, ticksBetween, timingOf, upcoming } from '../../src/schedules/preview.ts';
import { type Zone, zoneOf } from '../../src/schedules/zone.ts';
import { runs } from '../helpers/runs.ts';
import { AGREED, BY_HAND, type Case } from './cases.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** Zones with every kind of change: an hour, half an hour, two hours, at midnight, over the date line, none. */
const ZONES = [
  ...['America/New_York', 'Europe/Berlin', 'Europe/London', 'Europe/Dublin', 'Australia/Lord_Howe', 'Antarctica/Troll', 'America/Havana'],
  ...['Atlantic/Azores', 'Africa/Cairo', 'Africa/Casablanca', 'Asia/Beirut', 'Asia/Gaza', 'America/St_Johns', 'America/Santiago'],
  ...['Pacific/Apia', 'Pacific/Chatham', 'Asia/Kathmandu', 'America/Nuuk', 'America/Caracas', 'Asia/Pyongyang', 'UTC'],
];

function timing(cron: string, zone: string): Timing {
  const found = storedTiming({ cron, timezone: zone, start_ms: null, end_ms: null });
  assert.ok(found, `${cron} in ${zone}`);
  return found;
}

function fieldsOf(cron: string): CronFields {
  const parsed = parseCron(cron);
  assert.ok(parsed.ok, cron);
  return parsed.fields;
}

function zone(name: string): Zone {
  const found = zoneOf(name);
  assert.ok(found, name);
  return found;
}

const text = (ms: number): string => new Date(ms).toISOString().replace('.000Z', 'Z');

describe('the table', () => {
  const fires = ([cron, zone_name, after, expected]: Case): void => {
    test(`${cron} in ${zone_name} after ${after}`, () => {
      assert.deepEqual(upcoming(timing(cron, zone_name), Date.parse(after), expected.length).map(text), expected);
    });
  };
  AGREED.forEach(fires);
  BY_HAND.forEach(fires);

  test('croner says the same of the first part, and something else of the second', () => {
    const theirs = ([cron, timezone, after, { length }]: Case): string[] | null => {
      try {
        const runs = new Cron(cron, { timezone, paused: true }).nextRuns(length, new Date(after));
        return runs.map((date) => text(date.getTime()));
      } catch {
        return null;
      }
    };
    for (const row of AGREED) assert.deepEqual(theirs(row), row[3], row[0]);
    for (const row of BY_HAND) assert.notDeepEqual(theirs(row), row[3], row[0]);
    assert.ok(AGREED.length + BY_HAND.length >= 60);
  });
});

/** Whether the expression names a local time, given as if it were UTC. */
function names({ seconds, minutes, hours, months, days, weekdays }: CronFields, local_ms: number): boolean {
  const date = new Date(local_ms);
  const [d, weekday] = [date.getUTCDate(), date.getUTCDay()];
  const length = new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1, 0)).getUTCDate();
  const by_day = days !== null && (days.days.includes(d) || (days.last && d === length));
  const by_weekday =
    weekdays !== null &&
    ((weekdays.weekdays.includes(weekday) && (weekdays.nth === 0 || Math.floor((d - 1) / 7) + 1 === weekdays.nth)) ||
      (weekdays.last.includes(weekday) && d > length - 7));
  return (
    ((days === null && weekdays === null) || by_day || by_weekday) &&
    seconds.includes(date.getUTCSeconds()) &&
    minutes.includes(date.getUTCMinutes()) &&
    hours.includes(date.getUTCHours()) &&
    months.includes(date.getUTCMonth() + 1)
  );
}

/** All fires in [from_ms, to_ms), from the definition: each local minute of a wider span is looked up among the instants. */
function enumerate(fields: CronFields, name: string, from_ms: number, to_ms: number): number[] {
  const format = new Intl.DateTimeFormat('en-US', { timeZone: name, timeZoneName: 'longOffset' });
  const offset = (ms: number): number => {
    const match = /GMT(?:([+-])(\d\d):(\d\d))?/.exec(format.format(ms));
    return (match?.[1] === '-' ? -1 : 1) * (Number(match?.[2] ?? 0) * 60 + Number(match?.[3] ?? 0)) * MINUTE_MS;
  };
  const instants = new Map<number, number[]>();
  let before_ms = 0;
  const gaps: { from_ms: number; to_ms: number; offset_ms: number }[] = [];
  for (let ms = from_ms - 2 * DAY_MS; ms < to_ms + 2 * DAY_MS; ms += MINUTE_MS) {
    const offset_ms = offset(ms);
    if (ms > from_ms - 2 * DAY_MS && offset_ms > before_ms)
      gaps.push({ from_ms: ms + before_ms, to_ms: ms + offset_ms, offset_ms: before_ms });
    instants.set(ms + offset_ms, [...(instants.get(ms + offset_ms) ?? []), ms]);
    before_ms = offset_ms;
  }
  const all_hours = fields.hours.length === 24;
  const fires = new Set<number>();
  for (const [local_ms, at] of instants) {
    if (names(fields, local_ms)) for (const ms of all_hours ? at : at.slice(0, 1)) fires.add(ms);
  }
  for (const gap of gaps) {
    for (let local_ms = gap.from_ms; local_ms < gap.to_ms && !all_hours; local_ms += MINUTE_MS) {
      if (names(fields, local_ms)) fires.add(local_ms - gap.offset_ms);
    }
  }
  return [...fires].filter((ms) => ms >= from_ms && ms < to_ms).sort((a, b) => a - b);
}

const list = (low: number, high: number): fc.Arbitrary<string> =>
  fc.uniqueArray(fc.integer({ min: low, max: high }), { minLength: 1, maxLength: 4 }).map((values) => values.join(','));
const MINUTES = fc.oneof(fc.constant('*'), fc.constantFrom('*/5', '*/15', '*/30', '7-37/10'), list(0, 59));
const HOURS = fc.oneof(fc.constant('*'), fc.constantFrom('*/2', '0-3', '23,0,1', '1-4'), list(0, 23));
const DAYS = fc.oneof(
  { weight: 3, arbitrary: fc.constant('*') },
  { weight: 1, arbitrary: fc.oneof(fc.constantFrom('L', '*/2', '1-15'), list(1, 31)) },
);
const WEEKDAYS = fc.oneof(
  { weight: 3, arbitrary: fc.constant('*') },
  { weight: 1, arbitrary: fc.oneof(fc.constantFrom('1-5', '0L', 'SUN#1', '5#5'), list(0, 6)) },
);
const CRON = fc.tuple(MINUTES, HOURS, DAYS, WEEKDAYS).map(([minute, hour, day, weekday]) => `${minute} ${hour} ${day} * ${weekday}`);
/** Near a change of the zone's offset more often than not. */
const PLACE = fc.constantFrom(...ZONES).chain((name) => {
  const changes = zone(name).changes(Date.UTC(2009, 0, 1), Date.UTC(2030, 0, 1));
  const near = fc.constantFrom(...(changes.length > 0 ? changes.map(({ at_ms }) => at_ms) : [Date.UTC(2026, 5, 1)]));
  const any = fc.integer({ min: Date.UTC(2010, 0, 1), max: Date.UTC(2030, 0, 1) });
  const shift = fc.integer({ min: -30 * 60, max: 6 * 60 });
  return fc
    .tuple(fc.oneof({ weight: 4, arbitrary: near }, { weight: 1, arbitrary: any }), shift)
    .map(([at_ms, minutes]) => ({ name, from_ms: Math.floor(at_ms / MINUTE_MS) * MINUTE_MS + minutes * MINUTE_MS }));
});
const RUNS = { numRuns: runs(30), ...(process.env['FC_SEED'] === undefined ? {} : { seed: Number(process.env['FC_SEED']) }) };

describe('properties', () => {
  test('stepping from fire to fire gives exactly the set that the rule defines', () => {
    fc.assert(
      fc.property(CRON, PLACE, (cron, { name, from_ms }) => {
        const to_ms = from_ms + 36 * HOUR_MS;
        const fields = fieldsOf(cron);
        const stepped: number[] = [];
        for (let at = next(fields, zone(name), from_ms - 1); at !== null && at < to_ms; at = next(fields, zone(name), at)) stepped.push(at);
        assert.deepEqual(stepped.map(text), enumerate(fields, name, from_ms, to_ms).map(text));
      }),
      RUNS,
    );
  });

  test('where one begins does not matter: between two fires every instant leads to the second', () => {
    fc.assert(
      fc.property(CRON, PLACE, fc.double({ min: 0, max: 1, noNaN: true }), (cron, { name, from_ms }, share) => {
        const [fields, place] = [fieldsOf(cron), zone(name)];
        const first = next(fields, place, from_ms);
        const second = first === null ? null : next(fields, place, first);
        if (first === null || second === null) return;
        assert.ok(from_ms < first && first < second);
        assert.equal(next(fields, place, first + Math.floor((second - first - 1) * share)), second);
        assert.equal(next(fields, place, second - 1), second);
        assert.equal(previous(fields, place, second, second - first), first);
        assert.equal(previous(fields, place, second, second - first - 1), null);
      }),
      { ...RUNS, numRuns: runs(200) },
    );
  });

  test('fires are counted as they are stepped', () => {
    fc.assert(
      fc.property(CRON, PLACE, fc.integer({ min: 0, max: 10 * DAY_MS }), (cron, { name, from_ms }, length_ms) => {
        const [fields, place] = [fieldsOf(cron), zone(name)];
        let stepped = 0;
        for (let at = next(fields, place, from_ms - 1); at !== null && at < from_ms + length_ms; at = next(fields, place, at)) stepped += 1;
        assert.equal(count(fields, place, from_ms, from_ms + length_ms), stepped);
      }),
      { ...RUNS, numRuns: runs(25) },
    );
  });
});

describe('a daily schedule', () => {
  test('fires once for every day of every zone, through thirty years', () => {
    for (const name of ZONES) {
      const daily = timing('30 2 * * *', name);
      const [from, to] = [Date.UTC(2012, 0, 1, 12), Date.UTC(2042, 0, 1, 12)];
      assert.equal(ticksBetween(daily, from, to), (to - from) / DAY_MS, name);
    }
  });
});

test('no tick lies where a year has five digits, in UTC or on the clocks of its zone', () => {
  for (const name of ['UTC', 'Pacific/Kiritimati', 'Pacific/Pago_Pago']) {
    const t = timing('0 */6 * * *', name);
    const ticks = upcoming(t, Date.UTC(9999, 11, 30), 100);
    assert.ok(ticks.length >= 3 && ticks.length <= 4, `${name}: ${ticks.length}`);
    for (const ms of ticks) assert.match(`${text(ms)} ${localTime(t, ms)}`, /^9999-12-\S+ 9999-12-\S+$/);
    assert.deepEqual(upcoming(t, Date.UTC(9999, 11, 31, 23), 1), []);
    assert.deepEqual(upcoming({ ...t, start_ms: Date.UTC(9999, 11, 31, 23), end_ms: null }, 0, 1), []);
  }
});

describe('lead', () => {
  const at = (iso: string): number => Date.parse(iso);
  const lead_ms = 300_000;

  test('is the setting where ticks are far apart, else three quarters of the distance to the one before', () => {
    const tick = at('2026-01-05T09:00:00Z');
    const leads = { '0 9 * * *': 300, '*/10 * * * *': 300, '*/5 * * * *': 225, '* * * * *': 45, '* * * * * *': 0.75 };
    for (const [cron, seconds] of Object.entries(leads)) {
      assert.equal(leadOf(timing(cron, 'UTC'), tick, lead_ms), seconds * 1000, cron);
    }
    assert.equal(leadOf(timing('58,59,0 * * * *', 'UTC'), at('2026-01-05T09:58:00Z'), lead_ms), 300_000);
    assert.equal(leadOf(timing('58,59,0 * * * *', 'UTC'), tick, lead_ms), 45_000);
    assert.equal(leadOf(timing('* * * * *', 'UTC'), tick, 0), 0);
    assert.equal(leadOf(timing('* * * * * *', 'UTC'), tick, DAY_MS), 750);
  });

  test('the run of a tick is made after the time of the tick before it', () => {
    fc.assert(
      fc.property(CRON, PLACE, (cron, { name, from_ms }) => {
        const t = timing(cron, name);
        const [first, second] = upcoming(t, from_ms, 2);
        if (first === undefined || second === undefined) return;
        assert.ok(second - leadOf(t, second, lead_ms) > first);
      }),
      RUNS,
    );
  });
});

describe('how long it takes', () => {
  const now = Date.UTC(2026, 10, 21);
  /** Of the processor: what others do on this machine does not count. */
  const took = (work: () => void): number => {
    const before = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  };

  test('an expression that never fires is found out within 50 ms', () => {
    for (const cron of ['0 0 30 2 *', '0 0 31 4,6,9,11 *', '0 0 0 30,31 2 *', '0 0 * 2 5#5']) {
      const ms = took(() => {
        const checked = timingOf({ cron, timezone: 'Africa/Casablanca', start_ms: null, end_ms: null }, now);
        assert.deepEqual(checked, { ok: false, fault: { kind: 'cron_never_fires' } });
      });
      assert.ok(ms < 50, `${cron}: ${ms} ms`);
    }
  });

  test('no instant of any expression takes 50 ms, and 5,000 take less', (t) => {
    const slowest: [number, string] = [0, ''];
    for (const name of ZONES) {
      for (const cron of ['* * * * *', '0 9 * * *', '30 2 29 2 *', '0 0 1 1 *', '0 0 * * 5#5']) {
        const ms = took(() => void upcoming(timing(cron, name), now, 100));
        if (ms > slowest[0]) slowest.splice(0, 2, ms, `${cron} ${name}`);
      }
    }
    for (const cron of ['* * * * *', '0 9 * * *']) {
      const ms = took(() => void upcoming(timing(cron, 'Europe/Berlin'), now, 5_000));
      t.diagnostic(`5,000 of ${cron}: ${ms.toFixed(1)} ms`);
      assert.ok(ms < 200, `${ms} ms`); // 50 on a machine of its own
    }
    t.diagnostic(`slowest preview of 100: ${slowest[0].toFixed(1)} ms, ${slowest[1]}`);
    assert.ok(slowest[0] < 50, slowest.join(' '));
  });
});
