// What is taken for an expression or a zone, and what is not.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseCron } from '../../src/schedules/expression.ts';
import { localTime, storedTiming } from '../../src/schedules/preview.ts';
import { zoneOf } from '../../src/schedules/zone.ts';

describe('an expression', () => {
  test('of the dialect is accepted', () => {
    const good = [
      ...['* * * * *', '*/5 * * * *', '0 9 * * MON-FRI', '0 9 * * mon', '0 0 1,15 * *', '5/20 * * * *', '1-10/3 * * * *'],
      ...[
        '0 0 L * *',
        '0 0 15,L * *',
        '0 0 * * 5L',
        '0 0 * * 1L,5L',
        '0 0 * * FRI#2',
        '0 0 ? * MON',
        '0 0 1 * ?',
        '0 0 * * 7',
        '0 0 * JAN-MAR *',
      ],
      ...['30 0 0 * * *', '  0 0 * * *  ', '0\t0 * *  *', '*/60 * * * *', '0 */24 * * *'],
      ...[
        '@yearly',
        '@annually',
        '@monthly',
        '@weekly',
        '@daily',
        '@midnight',
        '@hourly',
        '@minutely',
        '@secondly',
        '@weekdays',
        '@weekends',
      ],
    ];
    for (const cron of good) assert.equal(parseCron(cron).ok, true, cron);
  });

  test('may name a value more than once in its lists', () => {
    const same = {
      '*/10,*/15 * * * *': '0,10,15,20,30,40,45,50 * * * *',
      '0-10/5,5,7-8 * * * *': '0,5,7,8,10 * * * *',
      '0 0 1-3,2,L * *': '0 0 1,2,3,L * *',
      '0 0 * jan,1,JAN-MAR *': '0 0 * 1,2,3 *',
      '0 0 * * SUN,7,5/1': '0 0 * * 0,5,6',
      '0 0 * * MON,1,5L,5L': '0 0 * * 1,5L',
      '0 *,5 * * *': '0 * * * *',
    };
    for (const [cron, plain] of Object.entries(same)) assert.deepEqual(parseCron(cron), parseCron(plain), cron);
    for (const cron of ['60,1 * * * *', '50-70,1 * * * *', '0 0 0,1 * *', '0 0 * 13,1 *', '0 0 * * 8,1'])
      assert.ok(!parseCron(cron).ok, cron);
  });

  test('that means something else elsewhere, or nothing, is refused with a reason', () => {
    const bad = [
      ...['', ' ', '*', '* * *', '* * * *', '0 0 0 1 1 * 2026', '@reboot', '@every 5m', '@Hourly', 'every day'],
      ...[
        'H * * * *',
        'H(0-5) * * * *',
        '0 0 1W * *',
        '0 0 LW * *',
        '0 0 L-3 * *',
        '0 0 * * L',
        '0 0 * * MON#6',
        '0 0 * * MON#0',
        '0 0 * * 1#2,3',
      ],
      ...[
        '0 0 * * SAT-SUN',
        '50-10 * * * *',
        '0 22-2 * * *',
        '0 0 * NOV-FEB *',
        '*/100 * * * *',
        '*/0 * * * *',
        '0 */25 * * *',
        '0 0 */32 * *',
      ],
      ...['60 * * * *', '0 24 * * *', '0 0 0 * *', '0 0 32 * *', '0 0 * 13 *', '0 0 * 0 *', '0 0 * * 8', '61 0 0 * * *', '-1 * * * *'],
      ...[
        '1,,2 * * * *',
        ',1 * * * *',
        '1- * * * *',
        '-5 * * * *',
        '1-2-3 * * * *',
        '1/2/3 * * * *',
        '*/ * * * *',
        '/5 * * * *',
        '** * * * *',
        '*5 * * * *',
      ],
      ...[
        '0 0 * FOO *',
        '0 0 * * FOO',
        'MON * * * *',
        '? * * * *',
        '0 0 ?,1 * *',
        '1.5 * * * *',
        '1e1 * * * *',
        '0x1 * * * *',
        '٣ * * * *',
      ],
      ...['0 0 * * *\n', '0 0\u00a0* * *', `0 0 * * ${'1,'.repeat(200)}2`, '\u0000 0 * * *'].filter((c) => c.trim() === c),
    ];
    for (const cron of bad) {
      const parsed = parseCron(cron);
      assert.equal(parsed.ok, false, JSON.stringify(cron));
      if (!parsed.ok) assert.match(parsed.message, /^[A-Z"].*\.$/s, cron);
    }
  });

  test('a value that a field does not have is refused with the name of the field', () => {
    for (const [cron, message] of [
      ['60 * * * *', 'The minute field has "60", which is not within 0 to 59.'],
      ['* * 0 * *', 'The day of month field has "0", which is not within 1 to 31.'],
      ['0 * * 1-13 *', 'The month field has "1-13", which is not within 1 to 12.'],
      ['* * * * 1,8', 'The day of week field has "8", which is not within 0 to 7.'],
      ['0 0 24/2 * * *', 'The hour field has "24/2", which is not within 0 to 23.'],
    ] as const) {
      assert.deepEqual(parseCron(cron), { ok: false, message });
    }
    assert.equal(parseCron('0 0 31 12 0-7').ok, true);
  });

  test('30 February is well-formed, though it never comes', () => {
    assert.equal(parseCron('0 0 30 2 *').ok, true);
  });
});

describe('a zone', () => {
  test('is an IANA name, in any case of letters', () => {
    for (const name of [
      'UTC',
      'utc',
      'Europe/Berlin',
      'europe/berlin',
      'America/Argentina/Buenos_Aires',
      'US/Pacific',
      'Etc/GMT+5',
      'EST5EDT',
      'Asia/Kolkata',
      'Japan',
    ])
      assert.notEqual(zoneOf(name), null, name);
  });

  test('is not a word of a library, an abbreviation or an offset', () => {
    for (const name of [
      '',
      'local',
      'system',
      'UTC+5',
      'GMT+5',
      '+05:00',
      'Z',
      'PST',
      'ACT',
      'SystemV/PST8',
      'Mars/Olympus',
      'Europe/',
      '/Berlin',
      '../UTC',
      'Europe/Berlin ',
      'x'.repeat(100),
    ])
      assert.equal(zoneOf(name), null, name);
  });
});

test('a local time carries the offset of its instant', () => {
  const shown = (zone: string, at: string): string => {
    const timing = storedTiming({ cron: '* * * * *', timezone: zone, start_ms: null, end_ms: null });
    assert.ok(timing);
    return localTime(timing, Date.parse(at));
  };
  assert.equal(shown('Europe/Berlin', '2026-07-01T09:00:00Z'), '2026-07-01T11:00:00.000+02:00');
  assert.equal(shown('America/St_Johns', '2026-01-01T00:00:00Z'), '2025-12-31T20:30:00.000-03:30');
  assert.equal(shown('Asia/Kathmandu', '2026-01-01T00:00:00Z'), '2026-01-01T05:45:00.000+05:45');
  assert.equal(shown('UTC', '2026-01-01T00:00:00Z'), '2026-01-01T00:00:00.000+00:00');
});
