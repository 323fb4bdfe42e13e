// A time zone as the list of its changes of offset, found as they are asked for. Pure: what is remembered never changes.
//
// Asking Intl for an offset takes some microseconds, so it is asked at the borders of blocks of four days only, and
// between two borders that differ the change is searched. Since 2000 no zone has changed twice within six days, nor is
// any expected to (the shortest: Boa Vista in October 2000, seven days).
import { IANAZone } from 'luxon';

/** From `at_ms` on the offset is `after_ms`, until then `before_ms`. Offsets are local time minus UTC. */
export interface OffsetChange {
  readonly at_ms: number;
  readonly before_ms: number;
  readonly after_ms: number;
}

const DAY_MS = 86_400_000;
const BLOCK_MS = 4 * DAY_MS;
/** Eleven years of a zone. */
const BLOCKS_MAX = 1_024;
const ZONES_MAX = 1_024;
const MINUTE_MS = 60_000;
/** IANA's names have a slash, but for these. Intl knows others too: `PST`, `SystemV/PST8`. */
const PLACE = /^(?!systemv\/)[a-z][a-z0-9_+-]*(\/[a-z0-9_+-]+)+$/;
const WITHOUT_SLASH = new Set(
  (
    'utc gmt uct zulu universal greenwich gmt0 gmt+0 gmt-0 est mst hst est5edt cst6cdt mst7mdt pst8pdt wet cet met eet cuba egypt eire gb ' +
    'gb-eire hongkong iceland iran israel jamaica japan kwajalein libya navajo nz nz-chat poland portugal prc roc rok singapore turkey w-su'
  ).split(' '),
);
const NAME_LENGTH_MAX = 64;
const NO_CHANGES: readonly OffsetChange[] = [];

export class Zone {
  readonly name: string;
  readonly #iana: IANAZone;
  readonly #borders = new Map<number, number>();
  readonly #changes = new Map<number, readonly OffsetChange[]>();

  constructor(name: string) {
    this.name = name;
    this.#iana = IANAZone.create(name);
  }

  /** Local time minus UTC at an instant. */
  offsetAt(ms: number): number {
    const block = Math.floor(ms / BLOCK_MS);
    const changes = this.#inBlock(block);
    if (changes.length === 0) return this.#border(block);
    let offset_ms = this.#border(block);
    for (const change of changes) if (change.at_ms <= ms) offset_ms = change.after_ms;
    return offset_ms;
  }

  /** The changes at instants in (from_ms, to_ms], in order. */
  changes(from_ms: number, to_ms: number): readonly OffsetChange[] {
    let found = NO_CHANGES;
    for (let block = Math.floor(from_ms / BLOCK_MS); block * BLOCK_MS <= to_ms; block++) {
      const here = this.#inBlock(block);
      if (here.length > 0) found = [...found, ...here.filter(({ at_ms }) => at_ms > from_ms && at_ms <= to_ms)];
    }
    return found;
  }

  /** Changes at instants in (start of the block, start of the next]. */
  #inBlock(block: number): readonly OffsetChange[] {
    let changes = this.#changes.get(block);
    if (changes === undefined) {
      changes = this.#border(block) === this.#border(block + 1) ? NO_CHANGES : this.#search(block * BLOCK_MS, (block + 1) * BLOCK_MS);
      if (this.#changes.size >= BLOCKS_MAX) this.#changes.clear();
      this.#changes.set(block, changes);
    }
    return changes;
  }

  #border(block: number): number {
    let offset_ms = this.#borders.get(block);
    if (offset_ms === undefined) {
      offset_ms = this.#ask(block * BLOCK_MS);
      if (this.#borders.size >= BLOCKS_MAX) this.#borders.clear();
      this.#borders.set(block, offset_ms);
    }
    return offset_ms;
  }

  /** By halves to the minute, where all changes since 2000 lie. */
  #search(from_ms: number, to_ms: number): OffsetChange[] {
    const found: OffsetChange[] = [];
    const end_ms = this.#ask(to_ms);
    let left_ms = from_ms;
    for (let before_ms = this.#ask(from_ms); before_ms !== end_ms; before_ms = this.#ask(left_ms)) {
      let low = left_ms / MINUTE_MS;
      let high = to_ms / MINUTE_MS;
      while (high - low > 1) {
        const middle = Math.floor((low + high) / 2);
        if (this.#ask(middle * MINUTE_MS) === before_ms) low = middle;
        else high = middle;
      }
      left_ms = high * MINUTE_MS;
      found.push({ at_ms: left_ms, before_ms, after_ms: this.#ask(left_ms) });
    }
    return found;
  }

  #ask(ms: number): number {
    return this.#iana.offset(ms) * MINUTE_MS;
  }
}

const zones = new Map<string, Zone>();

/** The zone of an IANA name, in any case of letters; null where there is none. */
export function zoneOf(name: string): Zone | null {
  const known = zones.get(name);
  if (known !== undefined) return known;
  const lower = name.toLowerCase();
  if (name.length > NAME_LENGTH_MAX || !(PLACE.test(lower) || WITHOUT_SLASH.has(lower)) || !IANAZone.isValidZone(name)) return null;
  const zone = new Zone(name);
  if (zones.size >= ZONES_MAX) zones.clear();
  zones.set(name, zone);
  return zone;
}
