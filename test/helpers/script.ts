import { type Script, script } from '../../src/store/script.ts';

/** A script that was not generated: its keys by name, no arguments but those of `args`, all of them texts. */
export function plainScript<K extends object, A extends object, R>(
  name: string,
  keys: string[],
  args: string[],
  lua: string,
): Script<K, A, R> {
  return script({ name, keys, args: args.map((arg) => [arg, 'string'] as const), rest: null, pieces: [[`${name}.lua`, 1, lua]] });
}
