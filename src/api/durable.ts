// The last step of every request that admits work.
import type { Answer } from './call.ts';
import type { ApiContext } from './context.ts';

/**
 * The answer, once the work that it promises is as safe as the setting DURABILITY asks; or with the word that it is not. `home`:
 * the account in whose home slot a part of it lies.
 */
export function whenDurable(context: ApiContext, partition: number, answer: Answer, home: string | null = null): Answer | Promise<Answer> {
  return context.durability.local ? answer : onceConfirmed(context, partition, answer, home);
}

async function onceConfirmed(context: ApiContext, partition: number, answer: Answer, home: string | null): Promise<Answer> {
  const { durability } = context;
  const confirmed = await Promise.all([durability.confirm(partition), home === null || durability.confirmHome(home)]);
  if (confirmed.every(Boolean)) return answer;
  context.meter.degraded();
  return { ...answer, headers: { ...answer.headers, 'X-Sluice-Durability': 'local' } };
}
