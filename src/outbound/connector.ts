// Opens connections for undici, and is the gate that no address passes unseen:
//   1. a host that is an address is judged itself (Node asks no resolver for those);
//   2. a name is resolved here, blocked addresses are dropped, and exactly what is left is dialed, so that nothing can
//      change between the check and its use (DNS rebinding);
//   3. the address at the other end of an open connection is judged once more.
import { type LookupFunction, Socket } from 'node:net';
import { rootCertificates } from 'node:tls';
import type * as Undici from 'undici';
import { addressVerdict, type EgressPolicy, parseAddress } from './addresses.ts';
import { ConnectError, EBLOCKED, EDNS } from './failures.ts';
import { type Awaiting, withoutContinue } from './interim.ts';
import type { Reader, Reading } from './reading.ts';
import type { Resolver } from './resolver.ts';
import { buildConnector } from './undici.ts';
import { writesAsOne } from './writing.ts';

/** A target that does not answer SYN within this time is not going to; the call's own deadline may come first. */
const CONNECT_MS_MAX = 10_000;
/** Before the next address of a name is tried. Node's own 250 ms gives up on targets that are merely far away. */
const ADDRESS_MS = 1_000;
const TLS_SESSIONS_MAX = 1_000;

/** A connection as the connector sees it. */
export interface Opening extends Reader, Awaiting {
  /** Its socket while it is being opened; null once it is open or has failed. */
  opening: Socket | null;
  /** Reads at once what has come and waits to be read. */
  readNow: (() => void) | null;
}

export type Connector = Undici.buildConnector.connector;

/** Makes the connector of each connection. `ca`: further trusted certificates (PEM) beside those of Node. */
export function guardedConnectors(
  policy: EgressPolicy,
  resolver: Resolver,
  reading: Reading,
  ca: string | null,
): (slot: Opening) => Connector {
  const common = {
    timeout: CONNECT_MS_MAX,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: ADDRESS_MS,
    allowH2: false,
    maxCachedSessions: TLS_SESSIONS_MAX,
    lookup: guardedLookup(policy, resolver),
    // Node takes `ca` instead of its own list, not beside it.
    ...(ca === null ? {} : { ca: [...rootCertificates, ca] }),
  };
  const secure = buildConnector(common as Undici.buildConnector.BuildOptions);
  const plain = buildConnector({ ...common, onread: reading.onread } as Undici.buildConnector.BuildOptions);

  return (slot) => (options, callback) => {
    const literal = parseAddress(options.hostname);
    if (literal !== null && addressVerdict(literal, policy) === 'blocked') {
      callback(new ConnectError(EBLOCKED), null);
      return;
    }
    const connect = options.protocol === 'https:' ? secure : plain;
    // undici's connector returns the socket, though its type does not say so.
    const socket: unknown = connect(options, (error, open) => {
      slot.opening = null;
      if (error !== null) return callback(error, null);
      const remote = remoteVerdict(open, policy);
      if (remote === 'ok') {
        writesAsOne(open);
        if (connect === plain) {
          reading.of(open, slot);
          slot.readNow = () => reading.readNow(open);
        }
        withoutContinue(open, slot);
        return callback(null, open);
      }
      open.destroy();
      callback(new ConnectError(remote === 'blocked' ? EBLOCKED : 'ECONNRESET'), null);
    });
    slot.opening = socket instanceof Socket ? socket : null;
  };
}

function remoteVerdict(socket: Socket, policy: EgressPolicy): 'ok' | 'blocked' | 'gone' {
  if (socket.remoteAddress === undefined) return 'gone';
  const address = parseAddress(socket.remoteAddress);
  return address === null ? 'blocked' : addressVerdict(address, policy);
}

function guardedLookup(policy: EgressPolicy, resolver: Resolver): LookupFunction {
  return (hostname, options, callback) => {
    resolver.resolve(hostname, (error, addresses) => {
      if (error !== null) return callback(new ConnectError(EDNS, error.code ?? null), '', 0);
      const allowed = addresses.filter(({ address }) => {
        const bytes = parseAddress(address);
        return bytes !== null && addressVerdict(bytes, policy) === 'ok';
      });
      const first = allowed[0];
      if (first === undefined) return callback(new ConnectError(addresses.length === 0 ? EDNS : EBLOCKED), '', 0);
      if (options.all) callback(null, allowed);
      else callback(null, first.address, first.family);
    });
  };
}
