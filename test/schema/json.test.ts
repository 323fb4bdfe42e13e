// The JSON reader: as strict as JSON.parse and stricter where that is lenient, and payloads come out byte for byte.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { BODY_JSON, DEPTH_MAX, parseJson, RawJson } from '../../src/schema/json.ts';

const NO_RAW = { raw_keys: new Set<string>() };

/** What JSON.parse lets through and we do not. */
const STRICTER = /not allowed|repeated|deeper than|too large|lone surrogate|byte order mark|more than 1024 keys|More values/;

function read(text: string | Buffer, options = BODY_JSON): unknown {
  const result = parseJson(Buffer.from(text), options);
  assert.ok(result.ok, result.ok ? '' : result.message);
  return result.value;
}

function refusal(text: string | Buffer): string {
  const result = parseJson(Buffer.from(text), BODY_JSON);
  return result.ok ? 'accepted' : result.message;
}

/** Random space between tokens, so that the reader meets every place where it may stand. */
function spaced(json: unknown, space: string): string {
  if (Array.isArray(json)) return `[${space}${json.map((one) => spaced(one, space)).join(`${space},${space}`)}${space}]`;
  if (typeof json !== 'object' || json === null) return JSON.stringify(json);
  const pairs = Object.entries(json).map(([key, value]) => `${JSON.stringify(key)}${space}:${space}${spaced(value, space)}`);
  return `{${space}${pairs.join(`${space},${space}`)}${space}}`;
}

const anyJson = fc.jsonValue({ maxDepth: 6, noUnicodeString: false });
const anySpace = fc.constantFrom('', ' ', '\n', ' \t\r\n');

describe('parseJson', () => {
  it('reads what JSON.parse reads, to the same value', () => {
    fc.assert(
      fc.property(anyJson, anySpace, (json, space) => {
        const text = space + spaced(json, space) + space;
        const result = parseJson(Buffer.from(text), NO_RAW);
        if (result.ok) assert.deepEqual(result.value, JSON.parse(text));
        else assert.match(result.message, STRICTER);
      }),
      { numRuns: 2000 },
    );
  });

  it('agrees with JSON.parse on which damaged bodies are JSON', () => {
    const damage = fc.array(
      fc.record({ at: fc.nat(), byte: fc.constantFrom(...Buffer.from('{}[]",:\\u0e-+.tfn 1\u0000é')), cut: fc.boolean() }),
      { maxLength: 3 },
    );
    fc.assert(
      fc.property(anyJson, damage, (json, changes) => {
        let bytes = Buffer.from(spaced({ payload: json, b: [json] }, ' '));
        for (const { at, byte, cut } of changes) {
          const place = at % bytes.length;
          bytes = Buffer.concat([bytes.subarray(0, place), Buffer.of(byte), bytes.subarray(place + (cut ? 1 : 0))]);
        }
        const expected = outcome(() => JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)));
        for (const options of [NO_RAW, BODY_JSON]) {
          const result = parseJson(bytes, options);
          if (result.ok) assert.ok(expected.ok, `only we accept ${bytes}`);
          else assert.ok(!expected.ok || STRICTER.test(result.message), `only we refuse ${bytes}: ${result.message}`);
          if (result.ok && options === NO_RAW) assert.deepEqual(result.value, expected.ok && expected.value);
        }
      }),
      { numRuns: 5000 },
    );
  });

  it('leaves a payload as the bytes it came in', () => {
    fc.assert(
      fc.property(anyJson, anySpace, (payload, space) => {
        const text = spaced(payload, space);
        const body = read(`{"tasks":[{"payload":${space}${text}${space},"timeout":1}]}`) as {
          tasks: { payload: RawJson; timeout: number }[];
        };
        const raw = body.tasks[0]?.payload;
        assert.ok(raw instanceof RawJson);
        assert.equal(raw.bytes().toString(), text);
        assert.equal(raw.toString(), text);
        assert.equal(raw.length, Buffer.byteLength(text));
        assert.equal(body.tasks[0]?.timeout, 1);
      }),
    );
  });

  it('reads items that are alike but for their payload as it reads each alone', () => {
    const part = fc.record({
      before: fc.constantFrom('', '"a":1,', ' "a" : 1 ,', '"a":{"b":[1,{}]},', '"a":{"payload":[2]},', '"payload":3,', '"é":"\\u00e9",'),
      payload: fc.constantFrom('1', '"x"', '"\\"}"', '{"payload":1}', '[[],{}]', ' {} ', '{bad', '1.0e5', '', '01', '{"a":{"a":1}}'),
      behind: fc.constantFrom('', ',"z":1', ',"a":3', ' ,"z":{} ', ',"payload":2', ',"z":{"payload":{}}', ',', ',"__proto__":1'),
    });
    const items = fc.array(part, { minLength: 1, maxLength: 4 }).chain((parts) => fc.array(fc.constantFrom(...parts), { maxLength: 40 }));
    const decoded = (value: unknown): unknown =>
      JSON.parse(JSON.stringify(value, (_, one) => (one instanceof RawJson ? `raw ${one}` : one)));
    fc.assert(
      fc.property(items, (parts) => {
        const texts = parts.map(({ before, payload, behind }) => `{${before}"payload":${payload}${behind}}`);
        const alone = texts.map((text) => parseJson(Buffer.from(`[${text}]`)));
        const together = parseJson(Buffer.from(`[${texts.join(',')}]`));
        assert.equal(
          together.ok,
          alone.every(({ ok }) => ok),
        );
        if (!together.ok) return;
        const values = alone.map((one) => one.ok && (one.value as unknown[])[0]);
        assert.deepEqual(decoded(together.value), decoded(values));
        assert.deepEqual((together.value as object[]).map(Object.keys), (values as object[]).map(Object.keys));
      }),
      { numRuns: 3000 },
    );
  });

  it('keeps what decoding would change in a payload', () => {
    const payload = '{ "a": 12345678901234567890, "a": 1e400, "__proto__": {"constructor": 1}, "s": "\\ud800", "e": 1.0E+2 }';
    const body = read(`{"payload": ${payload} }`) as { payload: RawJson };
    assert.equal(body.payload.toString(), payload);
  });

  it('treats "payload" as any other key among headers and labels', () => {
    assert.deepEqual(read('{"labels":{"payload":"a"},"headers":{"payload":"b"}}'), { labels: { payload: 'a' }, headers: { payload: 'b' } });
  });

  it('decodes every kind of text, often repeated or not', () => {
    const texts = ['', 'a', 'é', '日本', '😀', '\u0000', '\u007f', '"\\/\b\f\n\r\t', 'x'.repeat(5000), 'toString', 'é\n', '\u2028'];
    for (const text of [...texts, ...texts]) assert.equal(read(JSON.stringify(text)), text);
    assert.equal(read('"\\u0041\\ud83d\\ude00\\/"'), 'A😀/');
  });

  it('reads numbers as JSON.parse does', () => {
    for (const text of [
      '0',
      '-0',
      '1',
      '-1',
      '1.0',
      '1.5e3',
      '1E-7',
      '123456789012345',
      '1234567890123456',
      '9007199254740993',
      '-12.5',
      '1e308',
      '5e-324',
      '1e-400',
    ]) {
      assert.ok(Object.is(read(text), JSON.parse(text)), text);
    }
  });

  it('makes plain objects whose keys may be called like a method', () => {
    const value = read('{"toString":1,"hasOwnProperty":2,"valueOf":{"a":null},"constructor":3,"prototype":4}') as Record<string, unknown>;
    assert.deepEqual(Object.entries(value), [
      ['toString', 1],
      ['hasOwnProperty', 2],
      ['valueOf', { a: null }],
      ['constructor', 3],
      ['prototype', 4],
    ]);
    assert.equal(Object.getPrototypeOf(value), Object.prototype);
  });

  it(`takes ${DEPTH_MAX} levels and no more, payloads included`, () => {
    const nested = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);
    const mixed = (levels: number): string => '{"a":['.repeat(levels / 2) + ']}'.repeat(levels / 2);
    assert.equal(refusal(nested(64)), 'accepted');
    assert.equal(refusal(mixed(64)), 'accepted');
    assert.equal(refusal(`{"payload":${nested(63)}}`), 'accepted');
    assert.equal(refusal(`{"payload":${mixed(62)}}`), 'accepted');
    for (const text of [
      nested(65),
      mixed(66),
      `{"payload":${nested(64)}}`,
      `{"payload":${mixed(64)}}`,
      '['.repeat(1_000_000),
      `{"payload":${'['.repeat(1_000_000)}`,
    ]) {
      assert.match(refusal(text), /deeper than 64/);
    }
  });

  it('refuses a body that is far larger in memory than on the wire', () => {
    assert.match(refusal(`[${'{},'.repeat(100_000)}{}]`), /More values/);
    assert.match(refusal(`[${'[[]],'.repeat(100_000)}1]`), /More values/);
    assert.match(refusal(`[${'1,'.repeat(100_000)}1]`), /More values/);
    assert.match(refusal(`[${'{"payload":1,"a":{"b":{"c":{"d":{}}}}},'.repeat(100_000)}1]`), /More values/);
    assert.equal(refusal(`{"payload":[${'{},'.repeat(100_000)}1]}`), 'accepted');
    assert.equal(refusal(`[${'{"target":"http://a"},'.repeat(100_000)}1]`), 'accepted');
    assert.match(refusal(`{${Array.from({ length: 1025 }, (_, i) => `"${i}":1`).join(',')}}`), /more than 1024 keys/);
    const dense = `[${Array.from({ length: 20_000 }, () => '{"target":{"url":"http://a","headers":{}},"retry":{}}').join(',')}]`;
    assert.equal(refusal(dense), 'accepted');
  });

  const BAD: [string, string | Buffer, RegExp][] = [
    ['nothing', '', /empty/],
    ['space alone', ' \n', /too early/],
    ['a byte order mark', '\ufeff{}', /byte order mark/],
    ['bytes that are not UTF-8', Buffer.from([0x22, 0xff, 0x22]), /UTF-8/],
    ['an overlong sequence', Buffer.from([0x22, 0xc0, 0xaf, 0x22]), /UTF-8/],
    ['a surrogate in UTF-8', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]), /UTF-8/],
    ['bad UTF-8 in a payload', Buffer.concat([Buffer.from('{"payload":"'), Buffer.of(0x80), Buffer.from('"}')]), /UTF-8/],
    ['two values', '{}{}', /unexpected character \(at byte 2\)/i],
    ['a value and a word', '1 x', /unexpected/i],
    ['a comma before the end of an object', '{"a":1,}', /unexpected/i],
    ['a comma before the end of an array', '[1,]', /unexpected/i],
    ['a comma alone', '[,]', /unexpected/i],
    ['a missing comma', '[1 2]', /unexpected/i],
    ['a missing colon', '{"a" 1}', /unexpected/i],
    ['a key without quotes', '{a:1}', /unexpected/i],
    ['a number as key', '{1:1}', /unexpected/i],
    ['single quotes', "{'a':1}", /unexpected/i],
    ['a comment', '{}//', /unexpected/i],
    ['a wrong bracket', '[1}', /unexpected/i],
    ['a wrong brace', '{"a":1]', /unexpected/i],
    ['an open object', '{"a":1', /too early/],
    ['an open array', '[1', /too early/],
    ['an open string', '"abc', /does not end/],
    ['an open key', '{"abc', /does not end/],
    ['a backslash at the end', '"abc\\', /escape/],
    ['an unknown escape', '"\\x41"', /escape/],
    ['a short escape', '"\\u12"', /escape/],
    ['a hex escape with a sign', '"\\u+123"', /escape/],
    ['a line break in a string', '"a\nb"', /control character/],
    ['a NUL in a string', '"a\u0000b"', /control character/],
    ['a NUL in a key', '{"a\u0000":1}', /control character/],
    ['a lone high surrogate', '"\\ud800"', /lone surrogate/],
    ['a lone low surrogate', '"a\\udc00"', /lone surrogate/],
    ['surrogates in the wrong order', '"\\ude00\\ud83d"', /lone surrogate/],
    ['a lone surrogate in a key', '{"\\ud800":1}', /lone surrogate/],
    ['a leading zero', '01', /unexpected/i],
    ['a minus alone', '-', /too early/],
    ['a plus', '+1', /unexpected/i],
    ['a point without digits', '1.', /too early/],
    ['a point first', '.5', /unexpected/i],
    ['an exponent without digits', '1e', /too early/],
    ['an exponent with a sign alone', '[1e+]', /unexpected/i],
    ['hexadecimal', '0x10', /unexpected/i],
    ['infinity by exponent', '1e400', /too large/],
    ['infinity by exponent, negative', '{"a":-1e400}', /too large/],
    ['NaN', 'NaN', /unexpected/i],
    ['Infinity', 'Infinity', /unexpected/i],
    ['a word in capitals', 'True', /unexpected/i],
    ['half a word', 'tru', /too early/],
    ['a longer word', 'nulls', /unexpected/i],
    ['a form feed between tokens', '[1,\f2]', /unexpected/i],
    ['a no-break space between tokens', '[1,\u00a02]', /unexpected/i],
    ['a repeated key', '{"a":1,"a":2}', /"a" is repeated/],
    ['a repeated key, once escaped', '{"a":1,"\\u0061":2}', /"a" is repeated/],
    ['a repeated key with a null', '{"a":null,"a":2}', /repeated/],
    ['a repeated key of a method', '{"toString":1,"toString":2}', /repeated/],
    ['a repeated payload', '{"payload":1,"payload":2}', /repeated/],
    ['__proto__', '{"__proto__":1}', /not allowed/],
    ['__proto__, escaped', '{"\\u005f_proto__":1}', /not allowed/],
    ['a repeated constructor', '{"constructor":1,"constructor":2}', /"constructor" is repeated/],
    ['a damaged payload', '{"payload":{"a":1,}}', /unexpected/i],
    ['a payload with a bad escape', '{"payload":"\\q"}', /escape/],
    ['a payload with a bad number', '{"payload":[-]}', /unexpected/i],
    ['a payload that is not there', '{"payload":}', /unexpected/i],
    ['an open payload', '{"payload":{"a":[1', /too early/],
    ['a payload closed wrongly', '{"payload":{"a":[1}}', /unexpected/i],
    ['a payload with a key that is no string', '{"payload":{1:2}}', /unexpected/i],
  ];
  for (const [what, text, message] of BAD) {
    it(`refuses ${what}`, () => assert.match(refusal(text), message));
  }
});

function outcome(run: () => unknown): { ok: true; value: unknown } | { ok: false } {
  try {
    return { ok: true, value: run() };
  } catch {
    return { ok: false };
  }
}
