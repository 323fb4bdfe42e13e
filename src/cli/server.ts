// The service, for commands that go through its API: where it is, and with which token.
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { join } from 'node:path';
import { type Client, createClient, type TransportOptions } from '../client/index.ts';
import { type Given, type Option, UsageError } from './command.ts';

export const SERVER_OPTIONS: Readonly<Record<string, Option>> = {
  url: { type: 'string', value: 'URL', meaning: 'Where the service is; else `SLUICE_URL`, else `http://127.0.0.1:8080`.' },
  token: {
    type: 'string',
    value: 'TOKEN',
    meaning: 'The access token; else `SLUICE_TOKEN`; on this machine else that of the data directory.',
  },
};

const DEFAULT_URL = 'http://127.0.0.1:8080';

/** `retries_max`: repetitions of one call; default 4. */
export function clientOf(given: Given, options: Pick<TransportOptions, 'retries_max' | 'fetch'> = {}): Client {
  const base_url = urlOf(given);
  return createClient({ base_url, token: tokenOf(given, base_url), ...options });
}

export function urlOf(given: Given): string {
  const text = given.text('url') ?? (process.env['SLUICE_URL'] || DEFAULT_URL);
  if (!/^https?:\/\//.test(text) || !URL.canParse(text))
    throw new UsageError('The URL of the service must begin with http:// or https://.');
  return text.replace(/\/+$/, '');
}

function tokenOf(given: Given, url: string): string {
  const token = given.text('token') ?? (process.env['SLUICE_TOKEN'] || localToken(url));
  if (token === null) throw new UsageError('There is no access token: give --token, or set SLUICE_TOKEN.');
  if (!/^[\x21-\x7e]+$/.test(token)) throw new UsageError('The access token must be visible ASCII characters.');
  return token;
}

/** That of a server in this directory. It is for that server alone, so it is sent to this machine alone. */
function localToken(url: string): string | null {
  if (!isHere(new URL(url).hostname)) return null;
  try {
    return readFileSync(join(process.env['SLUICE_DATA_DIR'] || './data', 'token'), 'utf8').trim() || null;
  } catch {
    return null;
  }
}

function isHere(host: string): boolean {
  return host === 'localhost' || host === '[::1]' || (isIP(host) === 4 && host.startsWith('127.'));
}
