// The access token of this tab: asked once, kept in session storage, gone with the tab. And the client that uses it.
import { type Client, createClient, SluiceError } from '../client/index.ts';

const KEY = 'sluice.token';

export function storedToken(): string | null {
  return sessionStorage.getItem(KEY);
}

export function forgetToken(): void {
  sessionStorage.removeItem(KEY);
}

/** A client with this token, or why the service does not take it. */
export async function signIn(token: string): Promise<{ client: Client } | { refused: string }> {
  const client = clientWith(token);
  try {
    await client.listBatches({ limit: 1 });
  } catch (error) {
    return { refused: messageOf(error) };
  }
  sessionStorage.setItem(KEY, token);
  return { client };
}

export function clientWith(token: string): Client {
  return createClient({ base_url: '', token, retries_max: 1 });
}

/** What to tell people about an error; of a request that was not valid, each fault. */
export function messageOf(error: unknown): string {
  if (!(error instanceof SluiceError)) return 'The service cannot be reached.';
  return [error.message, ...faultsOf(error).map(({ path, message }) => (message === error.message ? path : `${path}: ${message}`))].join(
    '\n',
  );
}

/** The places of a request that were not valid. */
export function faultsOf({ details, message }: SluiceError): { path: string; message: string }[] {
  if (Array.isArray(details['errors'])) return details['errors'] as { path: string; message: string }[];
  return typeof details['path'] === 'string' ? [{ path: details['path'], message }] : [];
}

export function isUnauthorized(error: unknown): boolean {
  return error instanceof SluiceError && error.status === 401;
}
