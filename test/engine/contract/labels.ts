// Spec section 4: batches are found by the labels that their creator gave them.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { freshPath, type Stage, tasksFor } from '../stage.ts';

export function labels({ client, receiver }: Stage): void {
  test('a list can be filtered by labels, several at once, and by status with them', async () => {
    const make = (labels: object, hold = false) =>
      client.acme.create({ tasks: tasksFor(`${receiver.url}${freshPath()}`, 1), labels, options: { hold } });
    const held = await make({ suite: 'labels', kind: 'größe + 1' }, true);
    const other = await make({ suite: 'labels' });
    await client.acme.ended(other.id, 'completed');
    const ids = async (query: string): Promise<string[]> => (await client.acme.batches(query)).batches.map(({ id }) => id);
    assert.deepEqual(await ids('?label.suite=labels'), [other.id, held.id]);
    assert.deepEqual(await ids('?label.suite=labels&label.kind=gr%C3%B6%C3%9Fe+%2B+1'), [held.id]);
    assert.deepEqual(await ids('?label.suite=labels&status=completed'), [other.id]);
    assert.deepEqual(await ids('?label.suite=labels&label.kind=other'), []);
    assert.equal((await client.rival.batches('?label.suite=labels')).total, 0);
    await client.acme.cancel(held.id);
  });

  test('a label filter that no label could match is 400', async () => {
    await client.acme.refused(400, 'validation_error', 'GET', '/v1/batches?label.Suite=x');
    await client.acme.refused(400, 'validation_error', 'GET', '/v1/batches?label.suite=');
  });
}
