// What would show, once all is said to be over, that something is not.
import type { Rig } from '../helpers/rig.ts';
import { PARTITIONS } from './limited-steps.ts';

const LIVE = new Set(['pending', 'processing', 'tray', 'notes']);

/** What is not over yet. */
export async function whatIsLeft(rig: Rig): Promise<string[]> {
  const left: string[] = [];
  for (let p = 0; p < PARTITIONS; p++) {
    const dump = await rig.dump(p);
    for (const [name, { items }] of dump) {
      if (/^(away|outbox|granted|delayed|f:)/.test(name)) left.push(`${p} ${name} ${items.slice(0, 4).join(' ')}`);
      // What is in flight of a batch that was deleted ends with its lease.
      const flying = name.startsWith('active:') ? items.filter((item) => dump.has(`b:${item.split(',', 1)[0]}`)) : [];
      if (flying.length > 0) left.push(`${p} ${name} ${flying.join(' ')}`);
      if (/^lane:\w+:(q|e|first|until|n|dropped)$/.test(name)) left.push(`${p} ${name} ${items.slice(0, 4).join(' ')}`);
      // Slots whose time is over are free when somebody looks.
      const held = name.endsWith(':run') ? items.filter((_, i) => i % 2 === 1 && Number(items[i]) > rig.now_ms) : [];
      if (held.length > 0) left.push(`${p} ${name} ${held.join(' ')}`);
      const states = /^b:\w+:s$/.test(name) ? (items[0] ?? '') : '';
      const core = name.split(':')[1] ?? '';
      if (/[qrpP]/.test(states) && LIVE.has((await rig.batch(core)).status)) left.push(`${p} ${name} ${states}`);
    }
  }
  return left;
}
