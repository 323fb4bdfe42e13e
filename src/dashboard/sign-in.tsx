// Asks for the access token, once a tab.
import { useState } from 'preact/hooks';
import type { Client } from '../client/index.ts';
import { signIn } from './session.ts';

/** `why`: what ended the session before, null where it was ended by hand or none was. */
export function SignIn({ why, onClient }: { why: string | null; onClient(client: Client): void }) {
  const [token, setToken] = useState('');
  const [refused, setRefused] = useState(why);
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (busy) return;
    setBusy(true);
    const answer = await signIn(token.trim());
    setBusy(false);
    if ('client' in answer) onClient(answer.client);
    else setRefused(answer.refused);
  };
  return (
    <main class="sign-in">
      <form class="card" onSubmit={(event) => void submit(event)}>
        <h1>Sluice</h1>
        <label for="token">Access token</label>
        <input
          id="token"
          type="password"
          autocomplete="current-password"
          required
          autofocus
          placeholder="slk_…"
          value={token}
          onInput={({ currentTarget }) => setToken(currentTarget.value)}
          aria-describedby="token-help"
          aria-invalid={refused !== null}
        />
        <p id="token-help" class="hint">
          It stays in this tab. <code>make start</code> prints one; <code>sluice token create --account NAME</code> makes more.
        </p>
        {refused !== null && (
          <p class="error" role="alert">
            {refused}
          </p>
        )}
        <button type="submit" aria-busy={busy}>
          {busy ? 'Looking…' : 'Sign in'}
        </button>
      </form>
    </main>
  );
}
