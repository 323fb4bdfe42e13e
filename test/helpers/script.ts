import { createHash } from 'node:crypto';
import { type Script, script, textOf } from '../../src/store/script.ts';

/** A script that was not generated: its keys by name, no arguments but those of `args`, all of them texts. */
export function plainScript<K extends object, A extends object, R>(
  name: string,
  keys: string[],
  args: string[],
  lua: string,
): Script<K, A, R> {
  const pieces = [[`${name}.lua`, 1, lua]] as const;
  const sha = createHash('sha1').update(textOf({ pieces })).digest('hex');
  return script({ name, keys, args: args.map((arg) => [arg, 'string'] as const), rest: null, sha, pieces });
}
