// `sluice doctor`: looks at Redis and at this machine, and says what is not as it should be, each with its mend.
import { type Command, EXIT, type ExitCode, type Given } from './command.ts';
import { checkMachine } from './doctor-machine.ts';
import { checkRedis } from './doctor-redis.ts';
import type { Finding } from './finding.ts';
import { print, show } from './output.ts';

export const DOCTOR: Command = {
  name: 'doctor',
  words: [],
  summary: 'Look at Redis and at this machine: what is not as it should be, and what to do about it.',
  about:
    'Changes nothing. It looks at the Redis of the settings (version, eviction, memory, persistence, replicas, clock) and at this machine (Node, the HTTP library and its C library, open files, memory settings of the kernel, disk, DNS).',
  options: {
    resolve: { type: 'string', value: 'NAME', meaning: 'A host name to resolve; `localhost` where not given. Name one that you call.' },
  },
  needs: 'nothing',
  run: doctor,
};

const MARK = { ok: 'ok     ', warning: 'WARNING', fault: 'FAULT  ' } as const;

async function doctor(given: Given): Promise<ExitCode> {
  const findings = [...(await checkRedis(process.env)), ...(await checkMachine(given.text('resolve') ?? 'localhost', process.env))];
  const faults = findings.filter(({ state }) => state === 'fault').length;
  const warnings = findings.filter(({ state }) => state === 'warning').length;
  show(given.json, { ok: faults === 0, faults, warnings, findings }, () => findings.map(lineOf).join('\n'));
  if (!given.json)
    print(
      `\n${faults === 0 ? 'No fault' : `${faults} ${faults === 1 ? 'fault' : 'faults'}`}, ${warnings} ${warnings === 1 ? 'warning' : 'warnings'}.`,
    );
  return faults > 0 ? EXIT.bad_end : EXIT.done;
}

function lineOf({ check, state, found, mend }: Finding): string {
  return `${MARK[state]} ${check}: ${found}${mend === null ? '' : `\n          ${mend}`}`;
}
