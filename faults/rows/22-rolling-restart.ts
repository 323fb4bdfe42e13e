// Processes are replaced one after another under load. Requests go to whoever is there, as behind a proxy that asks again.
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { EngineOptions } from '../../test/helpers/engine.ts';
import { startRedis } from '../../test/helpers/redis.ts';
import { type Fault, type Judgement, NotHere } from '../lib/fault.ts';
import type { Scene } from '../lib/scene.ts';

const PROCESSES = 3;
const ROUNDS = 3;
/** The first line of a script, in a build. */
const SCRIPT = /(pieces: \[\["[^"]+", 1, `#!lua[^\n`]*)/;

async function roll(scene: Scene, next: (round: number) => EngineOptions): Promise<Judgement> {
  await Promise.all(Array.from({ length: PROCESSES }, () => scene.engine(next(0))));
  await scene.driver.more(scene.some);
  scene.begins();
  for (let round = 1; round <= (scene.quick ? 1 : ROUNDS); round++) {
    for (const leaves of [...scene.engines]) {
      await scene.engine(next(round));
      scene.forget(leaves);
      const code = await leaves.stop();
      scene.check(code === 0, `a process that was asked to leave ended with ${code}`);
      await scene.driver.more(scene.some / 4);
    }
  }
  scene.over();
  return scene.judge({ duplicates_max: 0 });
}

/** A build whose scripts all have another text, and so another hash; back and forth, as by a roll-back. */
function otherBuild(): string {
  const dist = process.env['TEST_DIST'];
  if (dist === undefined) throw new NotHere('two versions need a build');
  // Within the checkout, for its packages.
  const dir = fileURLToPath(new URL('../../.make/other', import.meta.url));
  const root = fileURLToPath(new URL('../../', import.meta.url));
  rmSync(dir, { recursive: true, force: true });
  cpSync(join(root, dist), join(dir, 'dist'), { recursive: true });
  cpSync(join(root, 'package.json'), join(dir, 'package.json'));
  const files = readdirSync(join(dir, 'dist')).map((file) => join(dir, 'dist', file));
  const withScripts = files.filter((file) => file.endsWith('.js') && SCRIPT.test(readFileSync(file, 'utf8')));
  if (withScripts.length === 0) throw new Error('no scripts found in the build');
  for (const file of withScripts)
    writeFileSync(file, readFileSync(file, 'utf8').replaceAll(new RegExp(SCRIPT, 'g'), '$1\n-- another version'));
  return join(dir, 'dist/main.js');
}

export const rollingRestarts: readonly Fault[] = [
  {
    row: 22,
    name: '',
    what: 'SIGTERM of each of three processes in turn, and a new one',
    async run(scene) {
      const redis_url = `unix://${(await startRedis()).path}`;
      return roll(scene, () => ({ redis_url }));
    },
  },
  {
    row: 22,
    name: 'two versions',
    what: 'the same, the new ones with scripts of another version',
    async run(scene) {
      const redis_url = `unix://${(await startRedis()).path}`;
      const main = otherBuild();
      return roll(scene, (round) => ({ redis_url, ...(round % 2 === 1 ? { main } : {}) }));
    },
  },
];
