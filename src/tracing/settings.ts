// What OpenTelemetry's own variables say of whether requests and attempts are traced, and which. They have the names that every service's have;
// endpoint, headers, certificates and times are read by the exporter itself.

/** Variables that mean something here, for docs/config.md. */
export const OTEL_VARIABLES: readonly (readonly [name: string, value: string, meaning: string])[] = [
  [
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    '',
    'Where spans are sent, by OTLP over HTTP as JSON: `http://collector:4318`. Unset: no spans are made.',
  ],
  ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', '', 'The same as a whole URL, with its path; wins over the one above.'],
  ['OTEL_EXPORTER_OTLP_PROTOCOL', '`http/json`', 'The only one that is spoken; another value stops the start.'],
  [
    'OTEL_EXPORTER_OTLP_HEADERS',
    '',
    'Headers for the collector: `api-key=…`. Also `…_TIMEOUT`, `…_COMPRESSION`, `…_CERTIFICATE` and their kin.',
  ],
  [
    'OTEL_TRACES_SAMPLER',
    '`parentbased_always_on`',
    'Which requests are traced, with all that they make; `parentbased_always_off`: those that came with a trace.',
  ],
  ['OTEL_TRACES_SAMPLER_ARG', '`1`', 'The share of the samplers that end in `traceidratio`, from 0 to 1.'],
  ['OTEL_SERVICE_NAME', '`sluice`', 'The name of the service in every span.'],
  ['OTEL_RESOURCE_ATTRIBUTES', '', 'What else every span says of where it comes from: `deployment.environment.name=prod`.'],
  ['OTEL_SDK_DISABLED', '`false`', '`true`: no spans, whatever the others say.'],
];

export const SAMPLERS = [
  'always_on',
  'always_off',
  'traceidratio',
  'parentbased_always_on',
  'parentbased_always_off',
  'parentbased_traceidratio',
] as const;

/** Plain data, since threads are told of it. */
export interface TracingSettings {
  sampler: (typeof SAMPLERS)[number];
  /** Of samplers that take a share. */
  ratio: number;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** null: nothing is to be traced. `fault` is told what is wrong, and then what is returned does not matter. */
export function tracingFrom(env: Environment, fault: (name: string, message: string) => void): TracingSettings | null {
  const given = (name: string): string => env[name]?.trim() ?? '';
  const endpoints = ['OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'].filter((name) => given(name) !== '');
  if (endpoints.length === 0 || given('OTEL_SDK_DISABLED').toLowerCase() === 'true') return null;
  for (const name of endpoints) if (!isHttpUrl(given(name))) fault(name, 'must be an http: or https: URL');
  for (const name of ['OTEL_EXPORTER_OTLP_PROTOCOL', 'OTEL_EXPORTER_OTLP_TRACES_PROTOCOL']) {
    if (!['', 'http/json'].includes(given(name))) fault(name, 'must be http/json: spans are sent in no other way');
  }
  const name = given('OTEL_TRACES_SAMPLER') || 'parentbased_always_on';
  const sampler = SAMPLERS.find((one) => one === name);
  if (sampler === undefined) fault('OTEL_TRACES_SAMPLER', `must be one of ${SAMPLERS.join(', ')}`);
  const ratio = Number(given('OTEL_TRACES_SAMPLER_ARG') || '1');
  if (!(ratio >= 0 && ratio <= 1)) fault('OTEL_TRACES_SAMPLER_ARG', 'must be a number from 0 to 1');
  return { sampler: sampler ?? 'always_off', ratio };
}

function isHttpUrl(text: string): boolean {
  return URL.canParse(text) && ['http:', 'https:'].includes(new URL(text).protocol);
}
