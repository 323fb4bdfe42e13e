// Chance that is the same again for the same seed, and values that programs stumble over.

export class Dice {
  #state: number;

  constructor(seed: number, turn: number) {
    this.#state = (Math.imul(seed, 0x9e37_79b1) ^ Math.imul(turn + 1, 0x85eb_ca6b)) >>> 0;
    for (let i = 0; i < 4; i++) this.share();
  }

  /** From 0, less than 1 (mulberry32). */
  share(): number {
    this.#state = (this.#state + 0x6d2b_79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  /** From 0, less than `n`. */
  int(n: number): number {
    return Math.floor(this.share() * n);
  }

  chance(share: number): boolean {
    return this.share() < share;
  }

  pick<T>(list: readonly T[]): T {
    return list[this.int(list.length)] as T;
  }

  /** Mostly few, at times many. */
  count(max: number): number {
    return this.int(this.pick([2, 2, 4, 8, max]) + 1);
  }

  text(): string {
    return this.chance(0.5) ? this.pick(TEXTS) : Array.from({ length: this.count(200) }, () => this.pick(LETTERS)).join('');
  }

  bytes(length: number): Buffer {
    return Buffer.from(Array.from({ length }, () => this.int(256)));
  }
}

const LETTERS = [...'abcdefghijklmnopqrstuvwxyz0123456789-_.:/?&=%"\'\\ {}[],\n\t\0', 'ü', '✓', '😀', '\u202e', '\ufeff', '\ud800'];
const TEXTS = [
  '',
  ' ',
  '0',
  '-1',
  'null',
  'true',
  '__proto__',
  'constructor',
  'toString',
  '../../etc/passwd',
  '%00',
  '%2e%2e%2f',
  '*',
  '{}',
  '#{7*7}',
  "'; DROP TABLE tasks; --",
  'sluice:{p0.0}:m',
  'a'.repeat(5_000),
  '😀'.repeat(600),
  '\ud800',
  '1e309',
  '9'.repeat(400),
  'http://',
  'http://[::ffff:127.0.0.1]/',
  'http://2130706433/',
  'http://user:pass@127.0.0.1:1/',
  'https://127.0.0.1:0/',
  'ftp://example.com/',
  'javascript:alert(1)',
  'http://ex ample.com/',
  `http://${'a.'.repeat(200)}com/`,
  '2026-02-30T00:00:00Z',
  '9999-12-31T23:59:60Z',
  '0000-01-01T00:00:00Z',
  '2030-01-01T00:00:00+25:99',
  '* * * * * * *',
  '*/0 * * * *',
  '0 0 31 2 *',
  '@reboot',
  'Europe/Nowhere',
];

export const ODD_VALUES: readonly unknown[] = [
  null,
  true,
  0,
  -0,
  -1,
  0.5,
  1e-320,
  1e308,
  2 ** 31,
  2 ** 53,
  -(2 ** 63),
  '',
  [],
  {},
  [[]],
  [null],
  { '': '' },
  JSON.parse('{"__proto__":{"x":1}}'),
  'x',
];
