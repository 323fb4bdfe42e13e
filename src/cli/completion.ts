// Completion of commands and options for bash and zsh, made from the command table.
import type { Command, Option } from './command.ts';

export const SHELLS = ['bash', 'zsh'] as const;
export type Shell = (typeof SHELLS)[number];

interface Row {
  name: string;
  options: Readonly<Record<string, Option>>;
}

export function completionScript(shell: Shell, commands: readonly Command[], optionsOf: (command: Command) => Row['options']): string {
  const rows = commands.map((command) => ({ name: command.name, options: optionsOf(command) }));
  // zsh runs bash's functions, with this.
  const head = shell === 'zsh' ? '#compdef sluice\nautoload -U +X bashcompinit && bashcompinit\n' : '';
  return `${head}${script(rows)}`;
}

function script(rows: readonly Row[]): string {
  const firsts = [...new Set(rows.map(({ name }) => name.split(' ')[0] ?? ''))];
  const groups = firsts.flatMap((first) => {
    const seconds = rows.flatMap(({ name }) => (name.startsWith(`${first} `) ? [name.slice(first.length + 1)] : []));
    return seconds.length === 0 ? [] : [`    '${first}') words='${seconds.join(' ')}' ;;`];
  });
  const options = rows.map(
    ({ name, options }) =>
      `    '${name}') words='${Object.keys(options)
        .map((option) => `--${option}`)
        .join(' ')}' ;;`,
  );
  const choices = new Map(
    rows.flatMap((row) =>
      Object.entries(row.options).flatMap(([option, { choices }]) =>
        choices === undefined ? [] : [[`    '${row.name} --${option}') words='${choices.join(' ')}' ;;`, true] as const],
      ),
    ),
  );
  return `# Completion of sluice. Load it with: source <(sluice completion bash)
_sluice() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}"
  local command="\${COMP_WORDS[1]}" words=''
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '${firsts.join(' ')} help' -- "$current"))
    return
  fi
  if [ "$COMP_CWORD" -eq 2 ]; then
    case "$command" in
${groups.join('\n')}
    esac
    [[ "$current" == -* ]] || { [ -n "$words" ] && COMPREPLY=($(compgen -W "$words" -- "$current")) && return; }
  fi
  case "$command \${COMP_WORDS[2]}" in
    ${rows
      .filter(({ name }) => name.includes(' '))
      .map(({ name }) => `'${name}'`)
      .join('|')}) command="$command \${COMP_WORDS[2]}" ;;
  esac
  case "$command $previous" in
    *' -f'|*' --file') COMPREPLY=($(compgen -f -- "$current")); return ;;
${[...choices.keys()].join('\n')}
  esac
  if [ -n "$words" ] && [[ "$previous" == --* ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    return
  fi
  case "$command" in
${options.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -F _sluice sluice
`;
}
