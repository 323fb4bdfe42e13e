import assert from 'node:assert/strict';
import { createHmac, randomBytes } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import { Webhook } from 'standardwebhooks';
import { Signer } from '../../src/outbound/signer.ts';
import { callTo, outboundFor, outcomeOf, receiver } from './receiver.ts';

test('the public library verifies what a receiver gets, with either secret of a rotation', async (t) => {
  const [old_secret, new_secret] = [randomBytes(32), randomBytes(24)];
  const verified: unknown[] = [];
  const origin = await receiver(t, async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)]));
    const secrets = request.url === '/both' ? [old_secret, new_secret] : [new_secret];
    // Throws, and so leaves the receiver without an answer, where the signature is wrong.
    for (const secret of secrets) verified.push(new Webhook(secret.toString('base64')).verify(body, headers));
    response.end();
  });
  const outbound = outboundFor(t);
  const bodies = [{ n: 1 }, { text: 'ünï' }, { large: 'x'.repeat(100_000) }];
  for (const body of bodies) {
    for (const [path, secrets] of [
      ['/both', [old_secret, new_secret]],
      ['/one', [new_secret]],
    ] as const) {
      const call = callTo(origin + path, { secrets, body: Buffer.from(JSON.stringify(body)), webhook_id: 'task_0000_7' });
      assert.equal((await outcomeOf(outbound, call)).verdict, 'success');
    }
  }
  assert.deepEqual(
    verified,
    bodies.flatMap((body) => [body, body, body]),
  );
});

test('GET and HEAD sign the empty body', async (t) => {
  const secret = randomBytes(32);
  const signatures: unknown[] = [];
  const origin = await receiver(t, (request, response) => {
    signatures.push(request.headers['webhook-signature']);
    response.end();
  });
  const outbound = outboundFor(t, { now: () => 1_700_000_000_000 });
  for (const method of ['GET', 'HEAD'] as const) await outcomeOf(outbound, callTo(origin, { method, secrets: [secret] }));
  const expected = `v1,${createHmac('sha256', secret).update('task_1.1700000000.').digest('base64')}`;
  assert.deepEqual(signatures, [expected, expected]);
});

test('signatures equal createHmac for every length of key and body', () => {
  const signer = new Signer();
  const bytes = (max: number): fc.Arbitrary<Buffer> => fc.uint8Array({ maxLength: max }).map((b) => Buffer.from(b));
  fc.assert(
    fc.property(
      fc.array(bytes(200), { minLength: 1, maxLength: 2 }),
      fc.stringMatching(/^[A-Za-z0-9_]{1,300}$/),
      bytes(2_000),
      (keys, id, body) => {
        const expected = keys.map((key) => `v1,${createHmac('sha256', key).update(`${id}.1763661234.`).update(body).digest('base64')}`);
        assert.equal(signer.sign(id, '1763661234', body, keys), expected.join(' '));
      },
    ),
    { numRuns: 500 },
  );
  for (const length of [16_383, 16_384, 16_385, 300_000]) {
    const [key, body] = [randomBytes(32), randomBytes(length)];
    assert.equal(signer.sign('a', '1', body, [key]), `v1,${createHmac('sha256', key).update('a.1.').update(body).digest('base64')}`);
  }
});
