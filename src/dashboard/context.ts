// What every view has at hand: the client, and the way out when its token is no longer taken.
import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { Client } from '../client/index.ts';

export interface Session {
  client: Client;
  /** `why` where nobody asked for it. */
  signOut(why?: string): void;
}

export const SessionContext = createContext<Session | null>(null);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === null) throw new Error('No view is shown before somebody signed in.');
  return session;
}
