// The disk of the append-only file is full for some seconds: Redis refuses writes, and takes them again when there is room.
import { execFileSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { startKillableRedis } from '../../test/engine/killable-redis.ts';
import { until } from '../../test/helpers/redis.ts';
import { type Fault, NotHere } from '../lib/fault.ts';

const HELD = 1_000;
const DISK_BYTES = 64 * 1_048_576;
const FULL_MS = 5_000;
const SEEN_MS_MAX = 20_000;

export const diskFull: Fault = {
  row: 13,
  name: '',
  what: "the disk of Redis's file is full for 5 s",
  async run(scene) {
    const dir = smallDisk();
    const redis = await startKillableRedis({ keeps: 'second', dir });
    await scene.engine({ redis_url: redis.url });
    await scene.engine({ redis_url: redis.url });
    await scene.driver.more(scene.some);
    const held = await scene.hold(HELD);
    scene.begins();
    const filler = join(dir, 'filler');
    fill(filler);
    held.release();
    const refused = async (): Promise<boolean> => /aof_last_write_status:err/.test(await redis.redis.info('persistence'));
    // What is in its last block fits yet.
    await until(
      async () => {
        fill(filler);
        return refused();
      },
      SEEN_MS_MAX,
      'the file not to be written any more',
    );
    await scene.lasts(FULL_MS);
    rmSync(filler);
    scene.over();
    await scene.driver.more(scene.some);
    scene.check((scene.driver.refusals.get('503') ?? 0) > 0, 'nobody was refused');
    return scene.judge({ duplicates_max: 0 });
  },
};

/** Taken away when the fault has been judged. */
function smallDisk(): string {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-disk-'));
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK_BYTES}`, 'tmpfs', dir], { stdio: 'pipe' });
  } catch {
    rmSync(dir, { recursive: true });
    throw new NotHere('mounting a small disk needs root');
  }
  after(() => {
    execFileSync('umount', ['-l', dir], { stdio: 'ignore' });
    rmSync(dir, { recursive: true, force: true });
  });
  return dir;
}

function fill(path: string): void {
  const file = openSync(path, 'a');
  const block = Buffer.alloc(4_096);
  try {
    for (;;) if (writeSync(file, block) < block.length) break;
  } catch {
    // There is no room: that was the point.
  } finally {
    closeSync(file);
  }
}
