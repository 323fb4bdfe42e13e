// A server that cannot listen says so and ends, whatever it has opened by then.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startEngine } from '../helpers/engine.ts';

test('where its port is in use a server ends at once', async () => {
  const { url } = await startEngine();
  const env = { SLUICE_PORT: new URL(url).port };
  await assert.rejects(startEngine({ env }), /the engine ended at once:[\s\S]*the port is in use/);
});
