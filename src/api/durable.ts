// The last step of every request that admits work.
import type { Answer } from './call.ts';
import type { ApiContext } from './context.ts';

/** The answer, once the work that it promises is as safe as the setting DURABILITY asks; or with the word that it is not. */
export async function whenDurable(context: ApiContext, partition: number, answer: Answer): Promise<Answer> {
  if (await context.durability.confirm(partition)) return answer;
  context.meter.degraded();
  return { ...answer, headers: { ...answer.headers, 'X-Sluice-Durability': 'local' } };
}
