// The page /docs: the API reference, made from the OpenAPI document when it is first asked for. One page and one style sheet of this
// server, no script, so that it shows wherever the server is.
import { createHash } from 'node:crypto';
import { type EndpointDoc, type FieldDoc, type ObjectDoc, type Reference, referenceOf } from '../schema/reference.ts';
import type { Reply } from './answer.ts';
import { PAGE_HEADERS } from './pages.ts';

const HTML = 'text/html; charset=utf-8';
const CSS = 'text/css; charset=utf-8';
const SHEET_PATH = '/docs.css';

/** What is at /docs and beside it, by path. */
export function referencePages(openapi: string): ReadonlyMap<string, () => Reply> {
  let page: Reply | null = null;
  const html = (): Reply => {
    page ??= reply(render(referenceOf(JSON.parse(openapi))), HTML);
    return page;
  };
  const sheet = reply(SHEET, CSS);
  return new Map([
    ['/docs', html],
    [SHEET_PATH, () => sheet],
  ]);
}

function reply(text: string, type: string): Reply {
  const body = Buffer.from(text);
  const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`;
  return { status: 200, body, type, headers: { ...PAGE_HEADERS, 'Cache-Control': 'no-cache', ETag: etag } };
}

function render({ version, sections, objects }: Reference): string {
  const known = new Set(objects.map(({ name }) => name));
  const contents = sections.map(
    ({ title, endpoints }) => `<h2>${text(title)}</h2>${list(endpoints.map((one) => `<a href="#${one.name}">${text(one.title)}</a>`))}`,
  );
  const parts = sections.map(({ title, endpoints }) => `<h2>${text(title)}</h2>${endpoints.map((one) => endpoint(one, known)).join('')}`);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sluice API</title>
<link rel="stylesheet" href="${SHEET_PATH}">
</head>
<body>
<nav><p><a href="/">Sluice</a> ${text(version)}</p>${contents.join('')}<h2><a href="#objects">Objects</a></h2></nav>
<main>
<h1>API reference</h1>
<p>Made from <a href="/openapi.json">the OpenAPI document</a> of this server. Each request has a token: <code>Authorization: Bearer …</code>. The
examples take their values from the shell's environment: <code>SLUICE_URL</code> (the address of this page, without its path),
<code>SLUICE_TOKEN</code>, and ids such as <code>BATCH_ID</code>.</p>
${parts.join('\n')}
<h2 id="objects">Objects</h2>
${objects.map((one) => objectPart(one, known)).join('\n')}
</main>
</body>
</html>
`;
}

function endpoint(one: EndpointDoc, known: ReadonlySet<string>): string {
  const facts = [
    `Scope: <code>${text(one.scope)}</code>`,
    ...(one.body === '' ? [] : [`Body: ${type(one.body, known)}`]),
    `Answer: <code>${text(one.status)}</code> ${one.answer === '' ? '' : type(one.answer, known)}`,
    `Refusals: ${one.errors.map((error) => `<code>${text(error)}</code>`).join(', ')}`,
  ];
  return `<section id="${one.name}"><h3>${text(one.title)}</h3><p>${text(`${one.summary}. ${one.description}`)}</p>
<pre><code>${text(one.sample)}</code></pre>${fields(one.parameters, known)}${list(facts)}</section>`;
}

function objectPart({ name, description, fields: rows }: ObjectDoc, known: ReadonlySet<string>): string {
  return `<section id="${name}"><h3>${text(name)}</h3><p>${text(description)}</p>${fields(rows, known)}</section>`;
}

function fields(rows: readonly FieldDoc[], known: ReadonlySet<string>): string {
  if (rows.length === 0) return '';
  const cells = rows.map(({ name, where, required, type: of, meaning }) => {
    const notes = [where, required ? 'required' : ''].filter((part) => part !== '').join(', ');
    return `<tr><td><code>${text(name)}</code> ${notes}</td><td>${type(of, known)}</td><td>${text(meaning)}</td></tr>`;
  });
  return `<table>${cells.join('')}</table>`;
}

/** Names of objects lead to them. */
function type(of: string, known: ReadonlySet<string>): string {
  const name = of.replaceAll('[]', '');
  return known.has(name) ? `<a href="#${name}">${text(of)}</a>` : text(of);
}

function list(items: readonly string[]): string {
  return `<ul>${items.map((item) => `<li>${item}</li>`).join('')}</ul>`;
}

function text(raw: string): string {
  return raw.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}

const SHEET = `:root { color-scheme: light dark; }
body { margin: 0; overflow-wrap: anywhere; font: 15px/1.5 system-ui, sans-serif; display: grid; grid-template-columns: 22rem minmax(0, 1fr); }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; padding: 0 1rem; border-right: 1px solid #8884; box-sizing: border-box; font-size: 13px; }
nav ul { list-style: none; padding: 0; }
nav h2 { font-size: 1em; margin: 1em 0 0; }
main { padding: 0 2rem 4rem; max-width: 60rem; }
section { border-top: 1px solid #8884; padding-bottom: 1rem; }
h3 { font-family: ui-monospace, monospace; font-size: 1.05em; }
pre { overflow: auto; padding: .8rem; background: #8882; border-radius: 4px; }
code { font: 13px ui-monospace, monospace; }
table { border-collapse: collapse; width: 100%; }
td { border-top: 1px solid #8884; padding: .3rem .6rem .3rem 0; vertical-align: top; }
@media (max-width: 50rem) { body { display: block; } nav { position: static; height: auto; border: 0; } main { padding: 0 1rem; } }
`;
