// Draws trees of frames as one page that needs nothing else: click on a frame to see it alone, on its root to go back.
import { type Frame, totalOf } from './profile.ts';

const ROW_PX = 18;
const WIDTH_PX = 1_400;
/** Narrower ones are left out. */
const SHARE_MIN = 0.0005;
const CHAR_PX = 6.6;

export interface Flame {
  title: string;
  root: Frame;
  /** Of a value: `12.3 ms`. */
  shown(value: number): string;
}

interface Box {
  depth: number;
  from: number;
  share: number;
  label: string;
  module: string;
}

export function flamePage(title: string, flames: readonly Flame[]): string {
  const parts = flames.map(({ title: name, root, shown }) => `<h2>${markup(name)}</h2>\n${svg(root, shown)}`);
  return `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>${markup(title)}</title>
<style>body{font:14px sans-serif;margin:16px;background:#fff;color:#111}svg{display:block}text{font:11px monospace;pointer-events:none}rect{stroke:#fff;stroke-width:.5;cursor:pointer}</style>
<h1>${markup(title)}</h1>
${parts.join('\n')}
<script>
for (const svg of document.querySelectorAll('svg')) {
  const groups = [...svg.querySelectorAll('g')];
  svg.addEventListener('click', ({ target }) => {
    const at = target.parentNode.dataset;
    if (at?.s === undefined) return;
    const from = +at.f, share = +at.s, depth = +at.d;
    for (const g of groups) {
      const f = +g.dataset.f, s = +g.dataset.s, above = +g.dataset.d < depth;
      const inside = above ? f <= from + 1e-9 && f + s >= from + share - 1e-9 : f >= from - 1e-9 && f + s <= from + share + 1e-9;
      g.style.display = inside ? '' : 'none';
      if (!inside) continue;
      const x = above ? 0 : ((f - from) / share) * ${WIDTH_PX}, w = above ? ${WIDTH_PX} : (s / share) * ${WIDTH_PX};
      const [rect, text] = [g.querySelector('rect'), g.querySelector('text')];
      rect.setAttribute('x', x); rect.setAttribute('width', w); text.setAttribute('x', x + 3);
      text.textContent = w < 30 ? '' : g.dataset.l.slice(0, w / ${CHAR_PX});
    }
  });
}
</script>
</html>
`;
}

function svg(root: Frame, shown: (value: number) => string): string {
  const total = totalOf(root) || 1;
  const boxes: Box[] = [];
  const place = (node: Frame, depth: number, from: number): void => {
    const value = totalOf(node);
    const share = value / total;
    if (share < SHARE_MIN) return;
    const what = node.module === '' || node.module === '(native)' ? node.name : `${node.name} · ${node.module}`;
    boxes.push({ depth, from, share, module: node.module, label: `${what} · ${shown(value)} · ${(share * 100).toFixed(2)} %` });
    let at = from;
    for (const child of [...node.children.values()].sort((a, b) => a.name.localeCompare(b.name))) {
      place(child, depth + 1, at);
      at += totalOf(child) / total;
    }
  };
  place(root, 0, 0);
  const deepest = boxes.reduce((most, { depth }) => Math.max(most, depth), 0);
  const height = (deepest + 1) * ROW_PX;
  const groups = boxes.map(({ depth, from, share, label, module }) => {
    const [x, w, y] = [from * WIDTH_PX, share * WIDTH_PX, depth * ROW_PX];
    const text = w < 30 ? '' : markup(label.slice(0, w / CHAR_PX));
    const data = `data-d="${depth}" data-f="${from.toPrecision(8)}" data-s="${share.toPrecision(8)}" data-l="${markup(label)}"`;
    return `<g ${data}><title>${markup(label)}</title><rect x="${x.toFixed(2)}" y="${y}" width="${w.toFixed(2)}" height="${ROW_PX - 1}" fill="${colour(module)}"/><text x="${(x + 3).toFixed(2)}" y="${y + 13}">${text}</text></g>`;
  });
  return `<svg width="${WIDTH_PX}" height="${height}" viewBox="0 0 ${WIDTH_PX} ${height}" xmlns="http://www.w3.org/2000/svg">\n${groups.join('\n')}\n</svg>`;
}

/** One for each module, so that they are told apart at a glance. */
function colour(module: string): string {
  let hash = 0;
  for (const letter of module) hash = (hash * 31 + letter.charCodeAt(0)) % 360;
  return module === '' || module === '(native)' ? '#ddd' : `hsl(${hash} 65% 75%)`;
}

function markup(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
