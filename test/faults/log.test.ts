// The books of a soak, which forgets what was judged.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CallLog } from '../../faults/soak/log.ts';

const call = (log: CallLog, id: string): Promise<Response> => fetch(log.url, { method: 'POST', headers: { 'webhook-id': id } });

test('of single tasks each is forgotten alone, though they share a tray; of a batch all tasks', async () => {
  const log = new CallLog();
  await log.listen();
  for (const id of ['task_Tray_0', 'task_Tray_1', 'task_Batch_0', 'task_Batch_1']) await call(log, id);
  log.forget(['task_Tray_0', 'batch_Batch']);
  assert.deepEqual([...log.calls.keys()], ['task_Tray_1']);
  await call(log, 'task_Tray_2');
  assert.equal(log.late, 0);
  for (const id of ['task_Tray_0', 'task_Batch_1']) await call(log, id);
  assert.equal(log.late, 2);
  assert.deepEqual([...log.calls.keys()], ['task_Tray_1', 'task_Tray_2']);
});
