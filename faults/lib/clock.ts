// A clock of real time that one process alone sees and that can be set while it runs: a few lines of C, loaded in front of it.
import { execFileSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { NotHere } from './fault.ts';

export interface Clock {
  /** For the environment of the process. */
  readonly env: Record<string, string>;
  /** From now on it is so many milliseconds off. */
  set(offset_ms: number): void;
}

// By the system call, not by the next library: that would be looked up before the allocator of Redis is ready.
const SHIM = `
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long long *offset_us;

static void add(struct timespec *at) {
  if (!offset_us) return;
  long long us = *offset_us;
  at->tv_sec += us / 1000000;
  at->tv_nsec += us % 1000000 * 1000;
  if (at->tv_nsec < 0) { at->tv_nsec += 1000000000; at->tv_sec -= 1; }
  if (at->tv_nsec >= 1000000000) { at->tv_nsec -= 1000000000; at->tv_sec += 1; }
}

__attribute__((constructor)) static void open_clock(void) {
  const char *path = getenv("FAULT_CLOCK");
  int file = path ? open(path, O_RDONLY) : -1;
  if (file < 0) return;
  void *page = mmap(0, sizeof *offset_us, PROT_READ, MAP_SHARED, file, 0);
  if (page != MAP_FAILED) offset_us = page;
  close(file);
}

int clock_gettime(clockid_t id, struct timespec *at) {
  int failed = syscall(SYS_clock_gettime, id, at);
  if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) add(at);
  return failed;
}

int gettimeofday(struct timeval *at, void *zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
`;

/** Compiled here; gone when the fault has been judged. */
export function makeClock(): Clock {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-clock-'));
  after(() => rmSync(dir, { recursive: true, force: true }));
  const [source, library, file] = [join(dir, 'clock.c'), join(dir, 'clock.so'), join(dir, 'offset')];
  writeFileSync(source, SHIM);
  writeFileSync(file, Buffer.alloc(8));
  try {
    execFileSync('cc', ['-O1', '-shared', '-fPIC', '-o', library, source], { stdio: 'pipe' });
  } catch {
    throw new NotHere('a clock of its own needs a C compiler (cc)');
  }
  return {
    env: { LD_PRELOAD: library, FAULT_CLOCK: file },
    set(offset_ms) {
      const bytes = Buffer.alloc(8);
      bytes.writeBigInt64LE(BigInt(Math.round(offset_ms * 1_000)));
      const handle = openSync(file, 'r+');
      writeSync(handle, bytes, 0, 8, 0);
      closeSync(handle);
    },
  };
}
