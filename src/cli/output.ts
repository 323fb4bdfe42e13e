// What a command says. Standard output carries what a script wants to read, everything else goes to standard error.

export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

export function warn(text: string): void {
  process.stderr.write(`${text}\n`);
}

/** One JSON document on one line, or what a person reads. */
export function show(json: boolean, value: unknown, text: () => string): void {
  print(json ? JSON.stringify(value) : text());
}

export function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]): string => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ');
  return rows.map((row) => line(row).trimEnd()).join('\n');
}

/** Names and values below one another; empty ones are left out. */
export function facts(rows: readonly (readonly [name: string, value: string | number | null | undefined])[]): string {
  const kept = rows.flatMap(([name, value]) => (value === null || value === undefined || value === '' ? [] : [[name, String(value)]]));
  return table(kept);
}

export function time(ms: number): string {
  return new Date(ms).toISOString();
}

const BINARY = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB'];

/** `1.5 GiB`. */
export function bytes(count: number): string {
  const power = Math.min(BINARY.length - 1, Math.max(0, Math.floor(Math.log2(Math.max(1, count)) / 10)));
  const value = count / 1024 ** power;
  return `${power === 0 || value >= 100 ? Math.round(value) : Number(value.toFixed(1))} ${BINARY[power]}`;
}

/** `1,234,567`. */
export function number(count: number): string {
  return Math.round(count).toLocaleString('en-US');
}
