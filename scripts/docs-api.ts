// docs/api.md: the API reference, made from the same document as /openapi.json and the page /docs.
import { OPENAPI } from '../src/http/openapi.gen.ts';
import { type EndpointDoc, type FieldDoc, type ObjectDoc, referenceOf } from '../src/schema/reference.ts';

type Table = (head: string[], rows: string[][]) => string;

export function renderApi(made: string, table: Table): string {
  const { sections, objects } = referenceOf(JSON.parse(OPENAPI));
  const known = new Set(objects.map(({ name }) => name));
  const contents = sections.flatMap(({ title, endpoints }) =>
    endpoints.map((one) => [title, `[\`${one.title}\`](#${anchor(one.title)})`, one.summary]),
  );
  const parts = sections.map(
    ({ title, endpoints }) => `## ${title}\n\n${endpoints.map((one) => endpoint(one, known, table)).join('\n\n')}`,
  );
  return `${made}

# API reference

Made from the OpenAPI document, which a running server has at \`/openapi.json\`; it shows this page at \`/docs\`. Every example is run by a test
(\`test/docs/api.test.ts\`). They take their values from the environment; ids such as \`$BATCH_ID\` are those that creating answered:

\`\`\`sh
export SLUICE_URL=http://127.0.0.1:8080
export SLUICE_TOKEN=$(cat data/token)
\`\`\`

Every refusal is \`{"error": {"code", "message", "details"}}\`: [errors](errors.md). Lists take \`limit\` and \`offset\`, or \`cursor\`. A field or parameter that is
not here is refused.

${table(['', 'Endpoint', 'What it does'], contents)}

${parts.join('\n\n')}

## Objects

${objects.map((one) => objectPart(one, known, table)).join('\n\n')}
`;
}

function endpoint(one: EndpointDoc, known: ReadonlySet<string>, table: Table): string {
  const facts = [
    `Scope \`${one.scope}\``,
    ...(one.body === '' ? [] : [`body ${type(one.body, known)}`]),
    `answer \`${one.status}\`${one.answer === '' ? '' : ` ${type(one.answer, known)}`}`,
    `refusals ${one.errors.map((error) => `\`${error}\``).join(', ')}`,
  ];
  const parameters = one.parameters.length === 0 ? '' : `\n\n${fields(one.parameters, known, table, 'Parameter')}`;
  const about = [`${one.summary}.`, one.description].filter((part) => part !== '').join(' ');
  return `### ${one.title}\n\n${about}\n\n\`\`\`sh\n${one.sample}\n\`\`\`\n\n${facts.join('; ')}.${parameters}`;
}

function objectPart({ name, description, fields: rows }: ObjectDoc, known: ReadonlySet<string>, table: Table): string {
  return `### ${name}\n\n${description}\n\n${fields(rows, known, table, 'Field')}`;
}

function fields(rows: readonly FieldDoc[], known: ReadonlySet<string>, table: Table, what: string): string {
  return table(
    [what, 'Type', 'Meaning'],
    rows.map(({ name, where, required, type: of, meaning }) => [
      [`\`${name}\``, ...[where, required ? 'required' : ''].filter((part) => part !== '')].join(', '),
      type(of, known),
      meaning.replaceAll('\n', ' '),
    ]),
  );
}

function type(of: string, known: ReadonlySet<string>): string {
  const name = of.replaceAll('[]', '');
  return known.has(name) ? `[${of.replace('[]', '\\[\\]')}](#${anchor(name)})` : of;
}

function anchor(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');
}
