// What a server that made its own token says at its start.

export interface Greeting {
  url: string;
  version: string;
  account: string;
  token: string;
  /** Where the token lies. */
  path: string;
  /** Now: it was not there before. */
  created: boolean;
}

/** What somebody who starts it for the first time needs. The token itself is shown once. */
export function greeting({ url, version, account, token, path, created }: Greeting): string {
  const shown = created ? token : `the one in ${path}`;
  return `
Sluice ${version} is ready: ${url}
Access token (account ${account}): ${shown}

A first batch: 100 calls of this server's own health page. In a second terminal, in this directory:

  tasks=$(printf '{"target": {"url": "${url}/healthz?n=%d", "method": "GET"}},' $(seq 100))
  curl -s ${url}/v1/batches -H "Authorization: Bearer $(cat ${path})" -H "Content-Type: application/json" \\
    -d "{\\"tasks\\": [\${tasks%,}]}"

and how it went, with the id that it answers: curl -s ${url}/v1/batches/ID -H "Authorization: Bearer $(cat ${path})"

`;
}
